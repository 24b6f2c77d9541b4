-- The health of a KMSRotationPlan, for Argo CD.
--
-- A sync with waves waits until everything in a wave is Healthy, and a new commit is
-- not synced while it waits. So a plan is
--   Progressing  until data may be rewritten: a later wave may do it.
--   Healthy      from then on, with what is to be done as its message. Review, approval
--                and the commands on the nodes wait for people, for days; an approval
--                is a commit, and Progressing or Suspended would keep it from being
--                synced.
--   Degraded     when something contradicts the plan. That ends the sync as failed.
local waits = {Observing = true, Rotating = true, Settling = true}
local stands = {Converged = true, RewriteSafe = true, AwaitingReview = true, Approved = true, Applying = true, Retired = true}

local status = obj.status
if status == nil or status.phase == nil then
  return {status = "Progressing", message = "No manager has judged the plan yet: is bao-kms-manager running?"}
end
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "The status is of an older spec: is bao-kms-manager running?"}
end

local message = status.phase
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" then
    message = status.phase .. ": " .. condition.message
  end
end
if status.phase == "Degraded" then
  return {status = "Degraded", message = message}
end
if waits[status.phase] then
  return {status = "Progressing", message = message}
end
if stands[status.phase] then
  return {status = "Healthy", message = message}
end
return {status = "Unknown", message = "The phase " .. status.phase .. " is newer than this script: update it."}
