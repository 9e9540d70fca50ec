#!lua flags=allow-oom
-- Replaces rows and appends chunks, each if it has the expected version, and
-- gives back candidates of claims.
-- ARGV: 2 nothing, 3 how many rows; for each: hash, expected version and
-- creation time, the beginning of the new row, the part of it that changes, the
-- chunk or '', its version in digits, 'r' if it has the result, 'x' if the
-- reference is exclusive, name, tenant; then the hashes of the candidates.
-- Returns for each row 1, or 0 if it is stale, or -1 if its reference is taken,
-- or an error.
local function update(number, hash, expected, head, data, chunk, version, result, exclusive, name, tenant)
  local key = at .. 'op:' .. hash
  local old = call('HGET', key, 'r')
  if not old or sub(old, 4, 19) ~= expected then return 0 end
  local ref, tool = sub(head, 84, 99), sub(head, 60, 67)
  if exclusive == 'x' and ref ~= NOBODY then
    local holders = call('ZRANGE', at .. 'ref:' .. ref, '[' .. tool, '[' .. tool .. rep('\255', 17), 'BYLEX', 'LIMIT', 0, 2)
    for _, holder in ipairs(holders) do
      if sub(holder, 9) ~= hash then return -1 end
    end
  end
  local recorded, was, replaced = sub(old, 52, 59)
  if result == 'r' then
    was = unpack('>I8', recorded)
    if was > 0 then replaced = call('HGET', key, 'x') or error('the recorded result is missing', 0) end
    recorded = sub(head, 4, 11)
  end
  local fixed = unpack('>I4', old, 100)
  local row = sub(head, 1, 51) .. recorded .. tool .. sub(old, 68, 83) .. ref .. sub(old, 100, 103 + fixed) .. data
  local changes = reindexed(tenant, old, hash, name, row, hash, name)

  if byte(old, 3) ~= 0 then call('DECR', at .. 'tombstones') end
  if replaced then call('HSET', key, string.format('%.0f', was), replaced) end
  if chunk == '' then
    call('HSET', key, 'r', row)
  else
    call('HSET', key, 'r', row, result == 'r' and 'x' or version, chunk)
  end
  plan(number, changes)
  return 1
end

local answers, i = {}, 4
for k = 1, tonumber(ARGV[3]) do
  answers[k] = guarded(update, k, spread(ARGV, i, i + 9))
  i = i + 10
end
finish(answers)
for k = i, #ARGV do
  redis.pcall('ZREM', at .. 'taken', ARGV[k]) -- it ends by itself too
end
return answers
