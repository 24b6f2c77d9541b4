-- The health of a KMSNodeReport, for Argo CD. Reporters write these objects, not Git:
-- Argo CD shows them where it tracks them.
--
-- It cannot tell how old the report is: a reporter that has died leaves it as it was.
-- The plan's condition NodesReporting and the alert for stale reports can.
local status = obj.status
if status == nil or status.conditions == nil then
  return {status = "Progressing", message = "The reporter has not written a report yet."}
end
for _, condition in ipairs(status.conditions) do
  if condition.type == "ProviderReachable" and condition.status ~= "True" then
    return {status = "Degraded", message = condition.message}
  end
end
if status.report == nil then
  return {status = "Progressing", message = "The provider has not reported yet."}
end
local readiness = status.report.readiness
if not readiness.ready then
  return {status = "Degraded", message = "The provider is not ready: " .. table.concat(readiness.reasons or {}, ", ")}
end
return {status = "Healthy", message = "The provider is ready."}
