// Package observe is everything of the provider that an operator watches:
// structured logs, Prometheus metrics, and the /live and /ready endpoints
// (design: observability). schema.go is the schema of the logs.
//
// What may never happen here:
//
//   - a secret leaves: log values are printed only when their type and key are
//     known to be harmless, label values come from closed lists, and a key_id
//     appears only as its hash (design: overview, invariant 10);
//   - a scrape or a health request calls OpenBao, waits for something or is
//     answered from anything but the current status view;
//   - a request for Encrypt, Decrypt or Status is slowed down: what it touches
//     is resolved in advance and free of locks; above level debug only a failed
//     one is logged, and of a thousand identical failures one is printed (flood.go);
//   - debug correlation outlives its time (correlation.go).
//
// Beyond the design's list there are the metrics openbao_kms_ready and
// openbao_kms_unready_reason, so that readiness can be alerted on, and the events
// correlation.started and correlation.expired.
//
// The serve package makes one of each and hands them to the packages that
// report; those know only the small interfaces that they declare themselves.
package observe
