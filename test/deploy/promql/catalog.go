package main

import (
	"fmt"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// kind is how a series may be used.
type kind int

const (
	gauge   kind = iota
	counter      // only its increase means something
)

// metric is everything that was seen of one name.
type metric struct {
	kind   kind
	labels map[string]set // label to the values seen
}

type set map[string]bool

// catalog is what exists.
type catalog struct {
	metrics map[string]*metric
	target  set
}

func newCatalog(q Question) (*catalog, error) {
	c := &catalog{metrics: map[string]*metric{}, target: set{}}
	for _, l := range q.TargetLabels {
		c.target[l] = true
	}
	for _, name := range q.Others {
		c.see(name, gauge)
	}
	for i, text := range q.Scrapes {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("scrape %d: %w", i+1, err)
		}
		for _, f := range families {
			c.add(f)
		}
	}
	return c, nil
}

// add takes in a family as the series that it is stored as.
func (c *catalog) add(f *dto.MetricFamily) {
	name := f.GetName()
	for _, m := range f.GetMetric() {
		switch f.GetType() {
		case dto.MetricType_COUNTER:
			c.see(name, counter, m.GetLabel()...)
		case dto.MetricType_HISTOGRAM:
			c.see(name+"_sum", counter, m.GetLabel()...)
			c.see(name+"_count", counter, m.GetLabel()...)
			for _, b := range m.GetHistogram().GetBucket() {
				c.see(name+"_bucket", counter, append(m.GetLabel(), pair("le", b.GetUpperBound()))...)
			}
		case dto.MetricType_SUMMARY:
			c.see(name+"_sum", counter, m.GetLabel()...)
			c.see(name+"_count", counter, m.GetLabel()...)
			for _, q := range m.GetSummary().GetQuantile() {
				c.see(name, gauge, append(m.GetLabel(), pair("quantile", q.GetQuantile()))...)
			}
		default:
			c.see(name, gauge, m.GetLabel()...)
		}
	}
}

func (c *catalog) see(name string, k kind, labels ...*dto.LabelPair) {
	m := c.metrics[name]
	if m == nil {
		m = &metric{kind: k, labels: map[string]set{}}
		c.metrics[name] = m
	}
	for _, l := range labels {
		if m.labels[l.GetName()] == nil {
			m.labels[l.GetName()] = set{}
		}
		m.labels[l.GetName()][l.GetValue()] = true
	}
}

func pair(name string, value float64) *dto.LabelPair {
	text := strconv.FormatFloat(value, 'g', -1, 64)
	return &dto.LabelPair{Name: &name, Value: &text}
}
