-- In front of every other script. KEYS[1] is the marker of the ledger, whose
-- name begins like those of all its keys; ARGV[1] is what it must hold. Nothing
-- is written of an operation before all of it is decided: what a script has
-- written stays even if it fails behind that.
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

-- guarded returns what f does, or its error: what befalls one of many is no
-- matter of the others.
local function guarded(f, ...)
  local ok, answer = pcall(f, ...)
  if not ok and type(answer) ~= 'table' then return redis.error_reply('ERR ' .. answer) end
  return answer
end

-- The indexes that take members for sure.
local sound = {}

-- reindexed returns what changes in the indexes if a row takes the place of the
-- one that was, nil: of none. Three for each index, those of references last: its
-- name, the member that goes and the one that comes, false: none. It fails if an
-- index concerned takes none, so that nothing is written of an operation that
-- could not be found.
local function reindexed(tenant, was, washash, wasname, row, hash, name)
  local changes = {
    'list:' .. tenant, was and wasname or false, name,
    'watch', was and watchmember(was, wasname, tenant) or false, watchmember(row, name, tenant),
    'due', was and duemember(was, washash) or false, duemember(row, hash),
    'ended', was and endedmember(was, washash) or false, endedmember(row, hash),
  }
  local wasref, ref = was and sub(was, 84, 99) or NOBODY, sub(row, 84, 99)
  if wasref ~= NOBODY then
    changes[13], changes[14], changes[15] = 'ref:' .. wasref, sub(was, 60, 67) .. washash, false
  end
  if ref == wasref then
    if ref ~= NOBODY then changes[15] = sub(row, 60, 67) .. hash end
  elseif ref ~= NOBODY then
    local n = #changes
    changes[n + 1], changes[n + 2], changes[n + 3] = 'ref:' .. ref, false, sub(row, 60, 67) .. hash
  end
  for i = 1, #changes, 3 do
    local index = changes[i]
    if not sound[index] and changes[i + 1] ~= changes[i + 2] then
      call('ZADD', at .. index, 'XX', '0', '') -- changes nothing
      sound[index] = true
    end
  end
  return changes
end

-- What becomes of the members of indexes, by index: the number of the operation
-- whose member it is at the end, or that number negative if it is none then.
local moves = {}

-- The errors of indexes, by the number of the operation that they befall.
local failed = {}

-- all runs a command with many arguments, behind the name of an index.
local function all(command, index, args)
  for i = 1, #args, 1000 do
    call(command, at .. index, spread(args, i, math.min(i + 999, #args)))
  end
end

-- move makes an index what is planned, with as few commands as can be.
local function move(index)
  local members, gone, new = moves[index], {}, {}
  moves[index] = nil
  for member, number in pairs(members) do
    if number > 0 then
      new[#new + 1] = '0'
      new[#new + 1] = member
    else
      gone[#gone + 1] = member
    end
  end
  local err = guarded(all, 'ZADD', index, new) or guarded(all, 'ZREM', index, gone)
  if not err then return end
  for _, number in pairs(members) do failed[math.abs(number)] = err end
end

-- plan makes changes of the operation with a number, whose row is written, part
-- of what finish does. References, which others of the same script look at,
-- change at once.
local function plan(number, changes)
  for i = 1, #changes, 3 do
    local index, was, is = changes[i], changes[i + 1], changes[i + 2]
    if was ~= is then
      local members = moves[index]
      if not members then
        members = {}
        moves[index] = members
      end
      if was then members[was] = -number end
      if is then members[is] = number end
      if i > 12 then move(index) end -- a reference
    end
  end
end

-- finish changes the indexes. What one does not take, although it seemed sound,
-- becomes the answer to the operations concerned.
local function finish(answers)
  for index in pairs(moves) do move(index) end
  for number, err in pairs(failed) do answers[number] = err end
end
