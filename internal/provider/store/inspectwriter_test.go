package store

import (
	"fmt"
	"testing"
)

// TestInspectBesideAWriter reads while a Store saves one generation after the
// other, as fast as it can: never an error, never a step back, never a document
// that was not saved.
func TestInspectBesideAWriter(t *testing.T) {
	history := lineage(60, ownClock)
	var interrupted, settled int
	for range 5 {
		path := statePath(t)
		if found, err := Inspect(path); err != nil || found.Registry != nil {
			t.Fatalf("before the first save: %+v, %v", found, err)
		}
		s := mustOpen(t, path)
		done := make(chan error, 1)
		go func() { // ends with the history
			defer close(done)
			for _, next := range history[1:] {
				if err := s.Save(next); err != nil {
					done <- err
					return
				}
			}
		}()
		var last uint64
		for running := true; running; {
			select {
			case err, failed := <-done:
				if failed {
					t.Fatal(err)
				}
				running = false // look once more, at the end
			default:
			}
			found, err := Inspect(path)
			if err != nil {
				t.Fatalf("after generation %d: %v", last, err)
			}
			if found.Registry == nil {
				if last > 0 {
					t.Fatalf("nothing after generation %d", last)
				}
				continue
			}
			g := found.Registry.Generation()
			if g < last {
				t.Fatalf("generation %d after %d", g, last)
			}
			last = g
			if !same(found.Registry, history[g]) {
				t.Fatalf("generation %d was never saved so", g)
			}
			if found.Interrupted {
				interrupted++
			} else {
				settled++
			}
		}
		if last != 60 {
			t.Errorf("generation %d at the end", last)
		}
	}
	t.Logf("seen %d times within a save, %d times between two", interrupted, settled)
	if settled == 0 || interrupted == 0 {
		t.Errorf("seen %d times within a save, %d times between two: this proves little", interrupted, settled)
	}
}

// TestInspectBetweenTheReads places a save, or several, between any two of the
// reads: the two files that are judged belong together all the same.
func TestInspectBetweenTheReads(t *testing.T) {
	own := lineage(9, ownClock)
	for before := range 4 { // generations that are confirmed when it begins
		for at := 1; at <= 3; at++ { // the read before which the saves come
			for saves := 1; saves <= 3; saves++ {
				for _, half := range []bool{false, true} { // the last save is at its checkpoint
					d := newDisk()
					if before > 0 {
						d.place(modelName, own[before].Encode())
						d.place(modelName+checkpointSuffix, checkpointDocument(own[before]))
					}
					meanwhile := &saving{directory: &injected{d, &plan{}}, at: at, save: func() {
						last := before + saves
						d.place(modelName, own[last].Encode())
						if half {
							last--
						}
						if last > 0 {
							d.place(modelName+checkpointSuffix, checkpointDocument(own[last]))
						}
					}}
					found, err := boot(d).store().inspect(meanwhile)
					name := fmt.Sprintf("%d saves after generation %d before read %d, half %v", saves, before, at, half)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						continue
					}
					// Where a checkpoint was replaced within the inspection, all is read again.
					again := at == 1 || !half || saves > 1
					want := own[before+saves]
					if at == 3 && !again {
						want = own[before]
					}
					if !same(found.Registry, want) {
						t.Errorf("%s: found generation %s, want %s", name, describe(found.Registry), describe(want))
					}
					if interrupted := half && want == own[before+saves]; found.Interrupted != interrupted {
						t.Errorf("%s: interrupted is %v, want %v", name, found.Interrupted, interrupted)
					}
				}
			}
		}
	}
}

// saving calls save before the read with the number at.
type saving struct {
	directory
	at, reads int
	save      func()
}

func (s *saving) Open(name string) (file, error) {
	if s.reads++; s.reads == s.at {
		s.save()
	}
	return s.directory.Open(name)
}
