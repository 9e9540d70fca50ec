-- Reads rows in the order of an index, newest first.
-- ARGV: 2 the index, 3 the upper and 4 the lower bound, 5 how many members to
-- look at, 6 where the name in a member begins, 7 what must be behind it.
-- Returns the last member looked at or '' if there are no more, and the rows.
local members = call('ZRANGE', at .. ARGV[2], ARGV[3], ARGV[4], 'BYLEX', 'REV', 'LIMIT', 0, ARGV[5])
local answer = {#members == tonumber(ARGV[5]) and members[#members] or ''}
for _, member in ipairs(members) do
  -- A name is a creation time, a key without NUL, NUL and a hash.
  local nul = find(member, '\0', tonumber(ARGV[6]) + 8, true)
  if sub(member, nul + 17) == ARGV[7] then
    answer[#answer + 1] = call('HGET', at .. 'op:' .. sub(member, nul + 1, nul + 16), 'r') or ''
  end
end
return answer
