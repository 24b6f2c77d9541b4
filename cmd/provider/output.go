package main

// reportAPIVersion is the version of every JSON report of this program.
const reportAPIVersion = "provider.kms.baokms.io/v1alpha1"

// reportHead begins a JSON report.
type reportHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func head(kind string) reportHead { return reportHead{reportAPIVersion, kind} }
