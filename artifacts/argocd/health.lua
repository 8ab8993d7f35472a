-- Copyright The DemoApp Controller Authors.
-- SPDX-License-Identifier: Apache-2.0

-- The health of a custom resource of demoapp-controller for Argo CD, for all of its kinds.
-- Degraded: a user must act. Suspended: a user or a schedule decides when the resource goes on.
-- Progressing: everything else that is not Healthy.

-- Reasons of Ready while a gate holds a change until a user, a schedule or a license server opens the gate.
local held = {
  SuspendedBySpec = true,
  SuspendedByAnnotation = true,
  SuspendedByNamespace = true,
  SuspendedByHandler = true,
  OutsideWindow = true,
  RolloutHalted = true,
  TakeoverHeld = true,
  LicenseDenied = true,
}

local function health(status, message)
  return { status = status, message = message or "" }
end

if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "The resource is being deleted")
end

-- A status or a condition about an earlier generation says nothing about this one.
local function isCurrent(observedGeneration)
  return observedGeneration == nil or obj.metadata.generation == nil or observedGeneration == obj.metadata.generation
end

local status = obj.status or {}
local observed = isCurrent(status.observedGeneration)
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  if isCurrent(condition.observedGeneration) then
    conditions[condition.type] = condition
  end
end

local function isTrue(type)
  return conditions[type] ~= nil and conditions[type].status == "True"
end

local ready = conditions.Ready
if isTrue("Stalled") then
  return health(observed and "Degraded" or "Progressing", conditions.Stalled.message)
end

-- While a change is held, observedGeneration is that of an earlier change.
if ready ~= nil and ready.status ~= "True" and held[ready.reason] then
  return health("Suspended", ready.message)
end
-- All kinds have Suspended, the kinds of watches.yaml have Paused, and Backups have Scheduled.
for _, type in ipairs({ "Suspended", "Paused" }) do
  if isTrue(type) then
    return health("Suspended", conditions[type].message)
  end
end
local scheduled = conditions.Scheduled
if scheduled ~= nil and scheduled.status == "False" and scheduled.reason == "Suspended" then
  return health("Suspended", scheduled.message)
end

if not observed then
  return health("Progressing", "The operator has not reconciled this generation yet")
end
if isTrue("Reconciling") then
  return health("Progressing", conditions.Reconciling.message)
end
if ready == nil then
  return health("Progressing", "The operator has not reconciled the resource yet")
end
return health(ready.status == "True" and "Healthy" or "Progressing", ready.message)
