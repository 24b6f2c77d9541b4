package setup

import (
	"errors"
	"fmt"
	"path/filepath"
	"unicode/utf8"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
)

// Init judges the options, writes the files and says what to do with them
// (design: config-and-cli, init). With anything wrong in the options the error
// is a *FlagError, with a directory that cannot be used a *DirectoryError; then,
// and after every other error, everything that this call made is gone again.
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
		return nil, err
	}
	return full.report(c, dir, list), nil
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

// text refuses what is not text at all: no quoting would keep it.
func (o *Options) text() error {
	p := problems{}
	flags := o.Flags()
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
