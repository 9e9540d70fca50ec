-- Records operations, each unless one has its key or identity that still
-- answers.
-- ARGV: 2 the time or '', 3 how many; for each: hash, row, first chunk, name,
-- tenant, how many may be archived for it, and for each of those its hash, its
-- version and creation time, its name, and the hash, row and name that it gets.
-- Returns for each 1 if it is recorded; {'key' or 'identity', row, chunk of the
-- result}; {'old', hash, row, …} if what was met must be archived first;
-- {'taken', hash} if its new key is taken; or an error.
local now = ARGV[2]

-- meet returns an answer if the operation with a hash still gives one.
local function meet(by, hash, old)
  local got = call('HMGET', at .. 'op:' .. hash, 'r', 'x')
  local row = got[1]
  if not row then
    return by == 'identity' and redis.error_reply('LEDGERDAMAGED an identity leads to no operation')
  end
  local untiltime = sub(row, 44, 51)
  if byte(row, 2) < SUCCEEDED or untiltime == NEVER then return {by, row, got[2]} end
  if now == '' then
    local _
    _, now = clock()
  end
  if not notafter(untiltime, now) then return {by, row, got[2]} end
  old[#old + 1] = {hash = hash, row = row}
end

-- begin records the operation with a number, whose arguments begin at first;
-- those of what may be archived lie before last.
local function begin(number, first, last)
  local hash, row, chunk, name, tenant = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3], ARGV[first + 4]
  local old = {}
  local answer = meet('key', hash, old)
  if answer then return answer end
  local ident = sub(row, 68, 83)
  if ident ~= NOBODY then
    ident = at .. 'id:' .. ident
    local holder = call('GET', ident)
    if holder and not (old[1] and holder == hash) then
      answer = meet('identity', holder, old)
      if answer then return answer end
    end
  else
    ident = nil
  end

  for _, o in ipairs(old) do
    for i = first + 6, last - 1, 6 do
      if ARGV[i] == o.hash and ARGV[i + 1] == sub(o.row, 4, 19) then
        o.name, o.newhash, o.newrow, o.newname = ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
      end
    end
    if not o.newhash then
      local answer = {'old'}
      for _, o in ipairs(old) do
        answer[#answer + 1] = o.hash
        answer[#answer + 1] = o.row
      end
      return answer
    end
    if call('EXISTS', at .. 'op:' .. o.newhash) == 1 then return {'taken', o.hash} end
    o.changes = reindexed(tenant, o.row, o.hash, o.name, o.newrow, o.newhash, o.newname)
  end
  local changes = reindexed(tenant, nil, nil, nil, row, hash, name)

  for _, o in ipairs(old) do
    call('RENAME', at .. 'op:' .. o.hash, at .. 'op:' .. o.newhash)
    call('HSET', at .. 'op:' .. o.newhash, 'r', o.newrow)
    local ident = sub(o.row, 68, 83)
    if ident ~= NOBODY then call('DEL', at .. 'id:' .. ident) end
    plan(number, o.changes)
  end
  call('HSET', at .. 'op:' .. hash, 'r', row, 'a', chunk)
  plan(number, changes)
  if ident then call('SET', ident, hash) end
  return 1
end

local answers, first = {}, 4
for k = 1, tonumber(ARGV[3]) do
  local last = first + 6 + 6 * tonumber(ARGV[first + 5])
  answers[k] = guarded(begin, k, first, last)
  first = last
end
finish(answers)
return answers
