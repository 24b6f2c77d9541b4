package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxSize is the largest document in bytes that Decode reads. A reporter should
// read one byte more than that and no further.
const MaxSize = 1 << 20

// Document is one of the documents of v1.
//
// +kubebuilder:object:generate=false
type Document interface {
	NodeReport | RetirementPlan | Problem
}

// Encode writes a document as the report socket serves it: compact JSON and a
// newline.
func Encode[D Document](d *D) ([]byte, error) {
	doc, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return append(doc, '\n'), nil
}

// Decode reads one document of the kind asked for, and nothing else: it refuses
// unknown and duplicate fields, other spellings of a known one, trailing data,
// values out of their bounds, and fields that contradict each other. White space
// between them is free. The error says what is wrong and quotes nothing but
// names of fields and numbers.
func Decode[D Document](doc []byte) (*D, error) {
	if len(doc) > MaxSize {
		return nil, fmt.Errorf("report: the document is larger than %d bytes", MaxSize)
	}
	d := new(D)
	if err := checkKind(doc, d); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, syntaxError(err)
	}
	// One value has one spelling: this finds duplicate and misspelt fields,
	// nulls and trailing data.
	var compact bytes.Buffer
	spelling, err := json.Marshal(d)
	if err == nil {
		err = json.Compact(&compact, doc)
	}
	if err != nil || !bytes.Equal(compact.Bytes(), spelling) {
		return nil, errors.New("report: the document has fields twice, in another order or spelling than v1's, or data after its end")
	}
	if err := any(d).(interface{ validate() error }).validate(); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return d, nil
}

// checkKind finds out first whether the document is of this version and kind:
// that says more than the first field that does not fit.
func checkKind(doc []byte, d any) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return syntaxError(err)
	}
	want := KindNodeReport
	switch d.(type) {
	case *RetirementPlan:
		want = KindRetirementPlan
	case *Problem:
		want = KindProblem
	}
	switch {
	case head.APIVersion != APIVersion:
		return errors.New("report: the document's apiVersion is not " + APIVersion + ": provider and manager are of different releases; update the manager first")
	case head.Kind != want:
		return errors.New("report: the document's kind is not " + want)
	}
	return nil
}

// syntaxError words a decoding error without the document's content.
func syntaxError(err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return errors.New("report: the document is not a JSON object")
	case errors.As(err, &wrongType):
		return fmt.Errorf("report: the document has a field %s of the wrong type", wrongType.Field)
	case errors.As(err, &syntax):
		return fmt.Errorf("report: the document is not JSON at byte %d", syntax.Offset)
	}
	return errors.New("report: the document has a field that v1 does not know: it was made by a newer provider; update the manager first")
}
