#!lua flags=allow-oom
-- Makes tombstones of operations that ended before a time.
-- ARGV: 2 the time, 3 how many.
-- Returns how many there were.
local members = call('ZRANGE', at .. 'ended', '-', '(' .. ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[3])
for _, member in ipairs(members) do
  local key = at .. 'op:' .. sub(member, 9)
  local row = call('HGET', key, 'r')
  if row then
    local version = pack('>I8', unpack('>I8', row, 4) + 1)
    call('INCR', at .. 'tombstones')
    call('UNLINK', key)
    call('HSET', key, 'r', sub(row, 1, 2) .. '\1' .. version .. sub(row, 12, 51) .. rep('\0', 8) .. sub(row, 60))
  end
  call('ZREM', at .. 'ended', member)
end
return #members
