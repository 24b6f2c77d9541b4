// Package assess judges a KMSRotationPlan: from the plan, its nodes' reports and
// the moment it makes the plan's whole status (design: manager). It is the
// manager's decision core. It does no I/O, reads no clock, holds no client and
// keeps no memory: what it must remember is in the status that it made before.
// The same input always gives the same output. Only the plan reconciler and the
// manager's terminal view may call it.
//
// It never says that a minimum version may be raised in OpenBao: no report can
// prove that, and the messages say so.
//
// # How it judges
//
// The facts are worked out first: which reports count (node.go), what the nodes
// agree on and since when (agreement.go, clock.go), what each node retires
// (retirement.go), and what contradicts the plan (contradiction.go). Each
// condition is then one policy: a function of the facts to a status, a reason and
// a message. A doubt is never read as the better case.
//
// # What is not judged
//
// A plan that is too large for one object, and one whose nodes cannot be known, is
// not judged in part: every condition says why (limits.go). What was known of its
// nodes, and what was approved, is remembered for the next judgement.
//
// # When a report counts
//
// It must be there, be of the plan's provider, and be younger than reportMaxAge.
// One that was observed more than half a minute after now has a clock that cannot
// be trusted, and does not count: it would outlive its provider. A report that no
// longer counts is still the last word on the node's registry, so what was
// planned, approved and applied stays as it was.
//
// One that counts, of a provider which does not answer its reporter now
// (ProviderReachable=False), is a report, but of no node that is well: the node is
// told as not ready.
//
// What was told of a node's key and registry is replaced by no older report. So a
// machine that is reverted together with its clock is seen to have gone back once the
// clock is right. A clock that is ahead is not what that is measured by.
//
// # The settle clock
//
// convergedSince is the first moment at which every node was found on one key,
// ready, with nothing pending, on the target. Anything else is a break: a node
// whose report no longer counts (one late report, too: nobody knows what the node
// did meanwhile; reporters repeat a heartbeat that failed well within
// reportMaxAge), one that is not ready or has a pending version, another key, a
// return to an earlier key, nodes that went different ways, a node that joined. A
// node that leaves is none. A convergedSince beside a RewriteSafe that says of no clock
// is none either, whoever left it there.
//
// A break restarts the clock; a manager that restarts does not, for the clock is
// in the status. Until data may be rewritten the status also says how far
// the clock was watched (the last keyHistory entry's lastSeen): when nobody watched
// for longer than reportMaxAge, and at least a minute, a break may have gone
// unseen, and the clock restarts. That also bounds what a clock that jumps forward can
// shorten. A clock that was set back shortens nothing: convergedSince stays, and is
// waited for. Moments are rounded up to the whole seconds that the API keeps.
//
// Once data may be rewritten, the status says that it is watched every ten minutes. When
// nobody watched for longer than that and reportMaxAge, the clock restarts if a node's
// registry has changed otherwise than by applying: it may have been restored, and the
// node may have encrypted with an older key. One that has not changed had no other key.
//
// # The digest
//
// It is "sha256:" and the hexadecimal SHA-256 of this JSON, in UTF-8, with the
// fields in this order and no white space:
//
//	{"providerName":"…","beforeVersion":3,"nodes":[
//	 {"name":"cp-1","activeKeyIdHash":"…","removedVersions":[1,2],
//	  "stateHash":"sha256:…","nextStateHash":"sha256:…"},…]}
//
// Nodes are sorted by name, bytewise, and versions ascend. Strings are escaped as
// encoding/json does without HTML escaping. There is a digest only while every
// node of the plan has a retirement plan or has applied one.
//
// # Approval and application
//
// Nothing but the digest approves: approvedDigest equal to it, with evidence.
// A node whose registry went from the planned state hash to the planned next one, or to
// a descendant in which the versions are still removed, has applied, and keeps the
// values it was planned with; so applying changes no digest. Any other change of a node's
// plan changes the digest, and the approval lapses until somebody reviews again.
//
// An approval counts at any time, but nobody is told to approve, and no command is
// shown, before data may be rewritten, while anything contradicts the plan, or while
// a node that has applied is not known to be ready (hold.go).
package assess
