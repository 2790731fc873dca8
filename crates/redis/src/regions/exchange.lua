-- What instances of one region store for each other, and what regions exchange at the global server. Each call uses one
-- hash; the reply begins with the server's time in microseconds. See exchange.rs for the operations.

local key, call = KEYS[1], redis.call
local time = call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = { time[1] * 1000000 + time[2] }

local function expire(ms)
  if tonumber(ms) > 0 then
    call('PEXPIRE', key, ms)
  end
end

-- The time by which epochs are counted. It does not go back, so an epoch that has ended stays ended.
local function epoch_time()
  local latest = tonumber(call('HGET', key, 'latest') or '0')
  if now_ms <= latest then
    return latest
  end
  call('HSET', key, 'latest', string.format('%.0f', now_ms))
  return now_ms
end

local operations = {}

function operations.put(ttl, ...)
  call('HSET', key, ...)
  expire(ttl)
end

function operations.claim(ttl, field, owner, lease)
  local claim = call('HGET', key, field)
  local until_ms = claim and tonumber(string.match(claim, ' (%d+)$'))
  if claim and (until_ms == 0 or now_ms < until_ms) then
    reply[2] = 0
    return
  end
  local ends = tonumber(lease) > 0 and now_ms + lease or 0
  call('HSET', key, field, owner .. ' ' .. string.format('%.0f', ends))
  expire(ttl)
  reply[2] = 1
end

function operations.get(...)
  for index, value in ipairs(call('HMGET', key, ...)) do
    reply[index + 1] = value
  end
end

-- Reads only the names of the other fields: the hash also has chunks of many keys.
function operations.all(prefix)
  local fields = call('HKEYS', key)
  for index = 1, #fields do
    if string.sub(fields[index], 1, #prefix) == prefix then
      reply[#reply + 1] = fields[index]
      reply[#reply + 1] = call('HGET', key, fields[index])
    end
  end
end

function operations.swap(field, expected, value)
  local current = call('HGET', key, field) or ''
  reply[2] = current == expected and 1 or 0
  reply[3] = current
  if current == expected then
    call('HSET', key, field, value)
  end
end

local function names(division, region)
  return string.find(division, ' ' .. region .. '=', 1, true)
end

local function votes_for(division, agreed)
  local fields = call('HGETALL', key)
  for index = 1, #fields, 2 do
    local region = string.match(fields[index], '^vote:(.*)$')
    if region and (names(division, region) or names(agreed, region)) then
      if string.match(fields[index + 1], '^%d+ (.*)$') ~= division then
        return false
      end
    end
  end
  return true
end

-- Restores what a server has lost, as a region knows it. All regions that were part of it have to vote again before it
-- changes, because they continue with it.
local function restore(known, previous)
  call('HSET', key, 'agreed', known)
  if previous ~= '' then
    call('HSET', key, 'previous', previous)
  end
  for region in string.gmatch(known .. ' ' .. previous, ' ([^ =]+)=') do
    call('HSETNX', key, 'vote:' .. region, '0 ' .. string.match(known, '^%d+ (.*)$'))
  end
end

-- Records the vote of a region, unless it is older than the last one. The division is agreed if it is the first one, or
-- when all regions that have ever voted, and are part of it or of the one before, have voted for it.
function operations.vote(region, number, division, known, previous)
  local now = epoch_time()
  if known and known ~= '' and call('HEXISTS', key, 'agreed') == 0 then
    restore(known, previous)
  end
  local last = tonumber(string.match(call('HGET', key, 'vote:' .. region) or '0 ', '^(%d+) '))
  if tonumber(number) > last then
    call('HSET', key, 'vote:' .. region, number .. ' ' .. division)
    last = tonumber(number)
  end
  local stored = call('HGET', key, 'agreed')
  local since, agreed = string.match(stored or '', '^(%d+) (.*)$')
  if not agreed then
    call('HSET', key, 'agreed', '0 ' .. division)
  elseif agreed ~= division and tonumber(since) <= now and last == tonumber(number) and votes_for(division, agreed) then
    local before, after = tonumber(string.match(agreed, '^%d+')), tonumber(string.match(division, '^%d+'))
    local ends = (math.floor(now / before) + 2) * before
    call('HSET', key, 'previous', agreed)
    call('HSET', key, 'agreed', string.format('%.0f ', math.ceil(ends / after) * after) .. division)
  end
  reply[2], reply[3], reply[4] = last, call('HGET', key, 'agreed'), call('HGET', key, 'previous') or ''
end

-- Accepts the report of a region for an epoch of `length` milliseconds, while that epoch lasts.
function operations.report(region, start, length, text)
  local now = epoch_time()
  reply[2] = 0
  if now >= tonumber(start) and now < start + length then
    call('HSET', key, 'report:' .. start .. ':' .. region, text)
    reply[2] = 1
  end
  local fields = call('HKEYS', key)
  for index = 1, #fields do
    local reported = tonumber(string.match(fields[index], '^report:(%d+):'))
    if reported and reported + 3 * length < now then
      call('HDEL', key, fields[index])
    end
  end
end

-- Returns the reports of an epoch that has ended.
function operations.read(start, length)
  reply[2] = 0
  if epoch_time() >= start + length then
    reply[2] = 1
    operations.all('report:' .. start .. ':')
  end
end

operations[ARGV[1]](unpack(ARGV, 2))
return reply
