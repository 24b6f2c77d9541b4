package assess

// Reasons that several conditions have.
const (
	// ReasonNoNodes: the plan's node set is empty, so nothing can be said.
	ReasonNoNodes = "NoNodes"
	// ReasonNodesNotReporting: a node has no report that counts.
	ReasonNodesNotReporting = "NodesNotReporting"
	// ReasonNotRequested: the plan asks for no retirement.
	ReasonNotRequested = "NotRequested"
	// ReasonNotConverged: the nodes are not converged.
	ReasonNotConverged = "NotConverged"
	// ReasonTooManyNodes: the selector matches more nodes than a plan has room for.
	// The reason of every condition then, also of Ready.
	ReasonTooManyNodes = "TooManyNodes"
	// ReasonStatusTooLarge: the API server refused the status for its size. The
	// reason of every condition then, also of Ready.
	ReasonStatusTooLarge = "StatusTooLarge"
	// ReasonNodesUnreadable: the manager cannot list Nodes, and the plan has a
	// selector. The reason of every condition then, also of Ready.
	ReasonNodesUnreadable = "NodesUnreadable"
	// ReasonSelectorInvalid: the plan's selector cannot be used. The reason of every
	// condition then, also of Ready.
	ReasonSelectorInvalid = "SelectorInvalid"
)

// Reasons of NodesReporting.
const (
	// ReasonAllReporting: every node has a report that counts.
	ReasonAllReporting = "AllReporting"
	// ReasonReportsMissing: a node has no report, or an empty one.
	ReasonReportsMissing = "ReportsMissing"
	// ReasonReportsTooOld: a node's report is not younger than reportMaxAge.
	ReasonReportsTooOld = "ReportsTooOld"
	// ReasonReportsUnusable: a report is of another provider, or from the future.
	ReasonReportsUnusable = "ReportsUnusable"
)

// Reasons of Converged.
const (
	// ReasonAllAgree: all nodes encrypt with one key, ready, none pending.
	ReasonAllAgree = "AllAgree"
	// ReasonNodesNotReady: a node's provider says that it is not ready.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonRotationPending: a version waits for its promotion on a node.
	ReasonRotationPending = "RotationPending"
	// ReasonKeysDiffer: the nodes encrypt with different keys.
	ReasonKeysDiffer = "KeysDiffer"
	// ReasonNotTargetVersion: all agree on another version than the target.
	ReasonNotTargetVersion = "NotTargetVersion"
)

// Reasons of RewriteSafe; also ReasonNotConverged and ReasonNoNodes.
const (
	// ReasonSettled: converged without a break for settleTime.
	ReasonSettled = "Settled"
	// ReasonSettling: converged, but not for so long.
	ReasonSettling = "Settling"
	// ReasonKeyReturned: the key is one that the nodes had left, so a rewrite would go
	// backwards. Also a reason of Degraded.
	ReasonKeyReturned = "KeyReturned"
)

// Reasons of PreflightPassed; also ReasonNodesNotReporting and ReasonNoNodes.
const (
	// ReasonAllPassed: every check passed on every node.
	ReasonAllPassed = "AllPassed"
	// ReasonPassedWithWarnings: none failed, and some warn.
	ReasonPassedWithWarnings = "PassedWithWarnings"
	// ReasonChecksFailed: a check failed.
	ReasonChecksFailed = "ChecksFailed"
	// ReasonChecksUnknown: none failed, but a node could not judge one.
	ReasonChecksUnknown = "ChecksUnknown"
)

// Reasons of RetirementPlanned; also ReasonNodesNotReporting, ReasonNotRequested
// and ReasonNoNodes.
const (
	// ReasonSameVersions: every node would remove, or has removed, the same.
	ReasonSameVersions = "SameVersions"
	// ReasonNothingToRemove: no node has anything to remove.
	ReasonNothingToRemove = "NothingToRemove"
	// ReasonPlanRefused: a node's provider refuses the plan.
	ReasonPlanRefused = "PlanRefused"
	// ReasonPlansDiffer: the nodes would not remove the same versions.
	ReasonPlansDiffer = "PlansDiffer"
	// ReasonAwaitingPlans: a node's reporter has not told its plan yet.
	ReasonAwaitingPlans = "AwaitingPlans"
)

// Reasons of RetirementApproved; also ReasonNotRequested and ReasonNoNodes.
const (
	// ReasonApproved: approvedDigest is the current digest, with evidence.
	ReasonApproved = "Approved"
	// ReasonNotApproved: there is no approvedDigest. Also a reason of
	// RetirementApplied: no approval counts.
	ReasonNotApproved = "NotApproved"
	// ReasonEvidenceMissing: an approval without evidence does not count.
	ReasonEvidenceMissing = "EvidenceMissing"
	// ReasonPlanChanged: approvedDigest is not the current digest.
	ReasonPlanChanged = "PlanChanged"
	// ReasonDigestUnavailable: there is no digest to compare with. Also a reason of
	// RetirementApplied.
	ReasonDigestUnavailable = "DigestUnavailable"
)

// Reasons of RetirementApplied; also ReasonNodesNotReporting, ReasonNotApproved,
// ReasonDigestUnavailable, ReasonNotRequested and ReasonNoNodes.
const (
	// ReasonAllApplied: every node has applied what was approved.
	ReasonAllApplied = "AllApplied"
	// ReasonPartlyApplied: some have.
	ReasonPartlyApplied = "PartlyApplied"
	// ReasonNotApplied: none has.
	ReasonNotApplied = "NotApplied"
)

// Reasons of Degraded, the gravest first; also ReasonKeyReturned,
// ReasonNodesNotReporting and ReasonNoNodes.
const (
	// ReasonNodesDiverged: two nodes went different ways. Also a reason of RewriteSafe.
	ReasonNodesDiverged = "NodesDiverged"
	// ReasonNodeWentBack: a node's registry is older than one it was seen with, or
	// another one of the same generation.
	ReasonNodeWentBack = "NodeWentBack"
	// ReasonApprovedPlanChanged: an approval counted, and no longer does.
	ReasonApprovedPlanChanged = "ApprovedPlanChanged"
	// ReasonAppliedWithoutApproval: a node has applied what nobody approved.
	ReasonAppliedWithoutApproval = "AppliedWithoutApproval"
	// ReasonRetirementsOverlap: another plan retires below another version on the
	// same nodes.
	ReasonRetirementsOverlap = "RetirementsOverlap"
	// ReasonConsistent: nothing contradicts the plan.
	ReasonConsistent = "Consistent"
)

// Ready's reason is the phase, unless nothing is judged.

// Reasons in nodes[].reasons for a report that does not count, and for one that
// counts of a provider which does not answer now. All others there are the
// provider's own (design: observability).
const (
	NodeReportMissing       = "report_missing"
	NodeReportEmpty         = "report_empty"
	NodeReportTooOld        = "report_too_old"
	NodeReportFromFuture    = "report_from_future"
	NodeReportOtherProvider = "report_of_other_provider"
	NodeProviderUnreachable = "provider_unreachable"
)
