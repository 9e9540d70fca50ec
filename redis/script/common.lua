-- In front of every other script. KEYS[1] is the marker of the ledger, whose
-- name begins like those of all its keys; ARGV[1] is what it must hold. Nothing
-- is written before all is decided: what a script has written stays even if it
-- fails behind that.
--
-- A row begins with fields of fixed width, see row.go:
--   1 format, 2 state, 3 flags, 4 version, 12 created, 20 updated, 28 due,
--   36 lease, 44 dedupe until, 52 version of the result, 60 tool, 68 identity,
--   84 reference, 100 length of the part that never changes, 104 that part.
-- Times are sorted like their bytes: big-endian nanoseconds above the least.
local call, byte, sub, rep, find = redis.call, string.byte, string.sub, string.rep, string.find
local spread, pack, unpack, floor = unpack, struct.pack, struct.unpack, math.floor
local NEVER, NOBODY = rep('\255', 8), rep('\0', 16)
local REVIEW, SUCCEEDED = 5, 6

local marker = KEYS[1]
local at = sub(marker, 1, -7) -- without "ledger"
if call('GET', marker) ~= ARGV[1] then
  return redis.error_reply('LEDGERGONE another ledger, or none, is where this one was')
end

-- clock returns the server's milliseconds, and its time like those in a row.
local function clock()
  local t = call('TIME')
  local s, us = tonumber(t[1]), tonumber(t[2])
  -- Nanoseconds do not fit into a number: s*10^9 is s*1953125 shifted by 9.
  local x = s * 1953125
  local low = (x % 8388608) * 512 + us * 1000
  local high = floor(x / 8388608) + 2147483648
  if low >= 4294967296 then
    low, high = low - 4294967296, high + 1
  end
  return s * 1000 + floor(us / 1000), pack('>I4I4', high, low)
end

-- notafter reports whether time a is not after b. Strings are not compared by
-- their bytes: the server's locale has a say in that.
local function notafter(a, b)
  local ah, al = unpack('>I4I4', a)
  local bh, bl = unpack('>I4I4', b)
  return ah < bh or ah == bh and al <= bl
end

-- The members of a row in the indexes; false where it is in none.
local function duemember(row, hash)
  local due = sub(row, 28, 35)
  return byte(row, 2) < REVIEW and due ~= NEVER and due .. sub(row, 12, 19) .. sub(row, 36, 43) .. sub(row, 60, 67) .. hash
end

local function watchmember(row, name, tenant)
  return byte(row, 2) ~= SUCCEEDED and sub(row, 2, 2) .. name .. tenant
end

local function endedmember(row, hash)
  return byte(row, 2) >= SUCCEEDED and byte(row, 3) == 0 and sub(row, 20, 27) .. hash
end

-- What becomes of the members of indexes, by index: true if they are in it at
-- the end.
local moves = {}

local function plan(index, was, is)
  if was ~= is then
    local members = moves[index]
    if not members then
      members = {}
      moves[index] = members
    end
    if was then members[was] = false end
    if is then members[is] = true end
  end
end

-- all runs a command with many arguments, behind the name of an index.
local function all(command, index, args)
  for i = 1, #args, 1000 do
    call(command, at .. index, spread(args, i, math.min(i + 999, #args)))
  end
end

-- move makes the indexes what is planned, with as few commands as can be.
local function move()
  for index, members in pairs(moves) do
    local gone, new = {}, {}
    for member, is in pairs(members) do
      if is then
        new[#new + 1] = '0'
        new[#new + 1] = member
      else
        gone[#gone + 1] = member
      end
    end
    all('ZREM', index, gone)
    all('ZADD', index, new)
  end
end

-- guarded returns what f does, or its error: what befalls one of many is no
-- matter of the others.
local function guarded(f, ...)
  local ok, answer = pcall(f, ...)
  if not ok and type(answer) ~= 'table' then return redis.error_reply('ERR ' .. answer) end
  return answer
end

-- reindex plans the indexes of a row instead of those of the one that was; nil:
-- none was. That of references, which others of the same script look at, is
-- changed at once.
local function reindex(tenant, was, washash, wasname, row, hash, name)
  plan('list:' .. tenant, was and wasname, name)
  plan('watch', was and watchmember(was, wasname, tenant), watchmember(row, name, tenant))
  plan('due', was and duemember(was, washash), duemember(row, hash))
  plan('ended', was and endedmember(was, washash), endedmember(row, hash))
  local wasref, ref = was and sub(was, 84, 99) or NOBODY, sub(row, 84, 99)
  local wasmember, member = was and sub(was, 60, 67) .. washash, sub(row, 60, 67) .. hash
  if wasref ~= ref or wasmember ~= member then
    if wasref ~= NOBODY then call('ZREM', at .. 'ref:' .. wasref, wasmember) end
    if ref ~= NOBODY then call('ZADD', at .. 'ref:' .. ref, 0, member) end
  end
end
