package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// reportAPIVersion is the version of every JSON report of this program.
const reportAPIVersion = "provider.kms.baokms.io/v1alpha1"

// reportHead begins every JSON report.
type reportHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func head(kind string) reportHead { return reportHead{reportAPIVersion, kind} }

// format is the value of --output: text or json.
type format string

const (
	formatText format = "text"
	formatJSON format = "json"
)

// outputFlag adds --output and returns where its value will be.
func outputFlag(cmd *cobra.Command) *format {
	f := formatText
	cmd.Flags().Var(&f, "output", "form of the report: text or json")
	complete(cmd, "output", cobra.ShellCompDirectiveNoFileComp, string(formatText), string(formatJSON))
	return &f
}

func (f *format) String() string { return string(*f) }

// Type names the values in help texts.
func (f *format) Type() string { return "text|json" }

// Set refuses everything but the two formats.
func (f *format) Set(v string) error {
	switch format(v) {
	case formatText, formatJSON:
		*f = format(v)
		return nil
	}
	return errors.New("write text or json")
}

// writeJSON writes a report, indented and with a newline at its end.
func writeJSON(w io.Writer, report any) error {
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
