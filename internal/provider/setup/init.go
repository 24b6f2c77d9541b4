package setup

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
)

// Init judges the options, writes the files and says what to do with them
// (design: config-and-cli, init). With anything wrong in the options, and with a
// directory that is not new or empty, the error is a *FlagError; when the system
// refuses to write, a *DirectoryError. Then, and after every other error,
// everything that this call made is gone again.
func Init(o Options) (*command.Report, error) {
	full, c, list, err := prepare(o)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the directory: %w", err)
	}
	if err := write(dir, list, nil); err != nil {
		return nil, asUsage(err)
	}
	return full.report(c, dir, list), nil
}

// asUsage turns the refusal of a directory, which another --dir helps against, into
// an error of usage. What the system refused, such as a write, stays what it is.
func asUsage(err error) error {
	var e *DirectoryError
	if errors.As(err, &e) && e.Err == nil {
		return &FlagError{[]Problem{{"dir", "names a directory that init does not write into: it " + e.Problem, e.Fix}}}
	}
	return err
}

// prepare is all of Init that comes before the first file: the options with
// every default, the configuration that they make, and the files.
func prepare(o Options) (full Options, c *config.Config, list []file, err error) {
	full = o.complete()
	if err := full.text(); err != nil {
		return full, nil, nil, err
	}
	rendered, err := full.view().render(configFile)
	if err != nil {
		return full, nil, nil, err
	}
	if c, err = check(&o, &full, rendered); err != nil {
		return full, nil, nil, err
	}
	if !full.agrees(c) {
		return full, nil, nil, errors.New("the configuration that init made does not say what its flags say, which is a mistake in init; nothing was written")
	}
	list, err = full.files(rendered)
	return full, c, list, err
}

// text refuses what is not text at all: no quoting would keep it. The directory,
// which commands name as a whole path, is also shown.
func (o *Options) text() error {
	p := problems{}
	flags := o.Flags()
	if dir, err := filepath.Abs(o.Dir); err != nil || !utf8.ValidString(dir) || strings.ContainsFunc(dir, unprintable) {
		p.add("dir", "is, as a whole path, not one of printable characters", "name a directory whose path can be shown and copied")
	}
	for _, f := range flags {
		var values []string
		switch v := f.Value.(type) {
		case *string:
			values = []string{*v}
		case *[]string:
			values = *v
		}
		for _, v := range values {
			if !utf8.ValidString(v) {
				p.add(f.Name, "is not valid UTF-8", "give it as text")
			}
		}
	}
	return p.err(flags)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func (o *Options) report(c *config.Config, dir string, list []file) *command.Report {
	r := &command.Report{
		Provider: &command.Provider{Name: o.ProviderName, Version: o.Build.Version, Fingerprint: c.Fingerprint()},
		Next:     o.steps(dir),
	}
	for _, f := range list {
		r.Files = append(r.Files, command.File{Name: f.name, Mode: fmt.Sprintf("%04o", f.mode), Target: f.target, Purpose: f.purpose})
	}
	return r.Seal(command.KindInit)
}
