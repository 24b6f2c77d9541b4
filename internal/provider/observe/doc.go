// Package observe is everything of the provider that an operator watches:
// structured logs, Prometheus metrics, and the /live and /ready endpoints
// (design: observability).
//
// What may never happen here:
//
//   - a secret leaves: log values are printed only when their type and key are
//     known to be harmless, label values come from closed lists, and a key_id
//     appears only as its hash (design: overview, invariant 10);
//   - a scrape or a health request calls OpenBao, waits for something or is
//     answered from anything but the current status view;
//   - a request for Encrypt, Decrypt or Status is slowed down: what it touches
//     is resolved in advance and free of locks.
//
// The serve package makes one of each and hands them to the packages that
// report; those know only the small interfaces that they declare themselves.
package observe
