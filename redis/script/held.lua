-- Reads rows that are found without a walk.
-- ARGV: 2 'id:' and a hash: whoever has the identity; or 'ref:' and a hash: all
-- who hold the reference.
-- Returns the rows.
local rows = {}
if sub(ARGV[2], 1, 3) == 'id:' then
  local hash = call('GET', at .. ARGV[2])
  if hash then rows[1] = call('HGET', at .. 'op:' .. hash, 'r') or '' end
else
  for i, member in ipairs(call('ZRANGE', at .. ARGV[2], 0, -1)) do
    rows[i] = call('HGET', at .. 'op:' .. sub(member, 9), 'r') or ''
  end
end
return rows
