-- ARGV: 2 the time or ''.
-- Returns how many operations have ended, the time, since when the most overdue
-- has been due or '', and for each state but succeeded how many there are and
-- the creation time of the oldest or ''.
local now = ARGV[2]
if now == '' then
  local _
  _, now = clock()
end
local lag, from, looked = '', '-', 0
while lag == '' and looked < 5000 do
  local members = call('ZRANGE', at .. 'due', from, '[' .. now .. rep('\255', 41), 'BYLEX', 'LIMIT', 0, 100)
  for _, member in ipairs(members) do
    if notafter(sub(member, 17, 24), now) then
      lag = sub(member, 1, 8)
      break
    end
  end
  if #members < 100 then break end
  looked, from = looked + #members, '(' .. members[#members]
end
local answer = {call('ZCARD', at .. 'ended') + tonumber(call('GET', at .. 'tombstones') or '0'), now, lag}
for _, state in ipairs({2, 3, 4, 5, 7}) do
  local min, max = '[' .. string.char(state), '(' .. string.char(state + 1)
  answer[#answer + 1] = call('ZLEXCOUNT', at .. 'watch', min, max)
  local first = call('ZRANGE', at .. 'watch', min, max, 'BYLEX', 'LIMIT', 0, 1)
  answer[#answer + 1] = first[1] and sub(first[1], 2, 9) or ''
end
return answer
