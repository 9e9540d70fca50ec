-- Finds operations that are due and keeps them from other claims for a while.
-- ARGV: 2 the time or '', 3 for how many milliseconds, 4 how many, 5 the tools
-- or '' for any, 6 the member of due to go on behind or '', 7 the hash of the
-- only operation or ''.
-- Returns the time, the last member looked at or '' if there are no more, and
-- for each operation its hash, row, first chunk and chunk of the result.
local ms, servertime = clock()
local now = ARGV[2] ~= '' and ARGV[2] or servertime
local limit, tools = tonumber(ARGV[4]), nil
if ARGV[5] ~= '' then
  tools = {}
  for i = 1, #ARGV[5], 8 do tools[sub(ARGV[5], i, i + 7)] = true end
end

local answer, hashes = {now, ''}, {}

local function take(hash)
  local got = redis.pcall('HMGET', at .. 'op:' .. hash, 'r', 'a', 'x')
  if got.err then
    got = {''} -- it cannot be read, and is in nobody's way
  elseif not got[1] then
    return
  end
  hashes[#hashes + 1] = hash
  for _, v in ipairs({hash, got[1], got[2] or '', got[3] or ''}) do answer[#answer + 1] = v end
end

local function untaken(hash)
  local untilms = call('ZSCORE', at .. 'taken', hash)
  return not untilms or tonumber(untilms) <= ms
end

-- consider takes the operation of a member of due.
local function consider(member)
  local hash = sub(member, 33)
  if notafter(sub(member, 1, 8), now) and notafter(sub(member, 17, 24), now) and (not tools or tools[sub(member, 25, 32)]) and untaken(hash) then
    take(hash)
  end
end

if ARGV[7] ~= '' then
  local row = call('HGET', at .. 'op:' .. ARGV[7], 'r')
  local member = row and duemember(row, ARGV[7])
  if member then consider(member) end
else
  local from, looked, page = '-', 0, limit + 16
  if ARGV[6] ~= '' then from = '(' .. ARGV[6] end
  while #hashes < limit do
    local members = call('ZRANGE', at .. 'due', from, '[' .. now .. rep('\255', 41), 'BYLEX', 'LIMIT', 0, page)
    local last
    for _, member in ipairs(members) do
      if #hashes == limit then break end
      consider(member)
      last = member
    end
    looked = looked + #members
    if #hashes < limit and #members < page then break end -- there are no more
    answer[2] = last
    if looked >= 2000 then break end -- others want to be served
    from = '(' .. last
  end
  if #hashes < limit and looked < 2000 then answer[2] = '' end
end

if #hashes > 0 then
  call('ZREMRANGEBYSCORE', at .. 'taken', '-inf', ms)
  for _, hash in ipairs(hashes) do
    call('ZADD', at .. 'taken', ms + tonumber(ARGV[3]), hash)
  end
end
return answer
