-- The overrides that all instances share, each until its end, and announcements of reset keys for the instances that
-- have not read them. One key holds both. Its value is a table with the members `epoch`, `dropped`, `notices` (the
-- overrides) and `tidings` (the announcements); these names are part of the stored format.
--
-- KEYS[1]  the key, which is also the name of the channel on which changes are published
-- ARGV[1]  the operation: read, post (set an override), remove (an override) or tell (announce reset keys)
-- ARGV[2]  read: the epoch that the caller knows, or -1
--          post: name, text, end in milliseconds since 1970, maximum number of overrides
--          remove: name
--          tell: the reset keys
--
-- The reply to `read` is the epoch alone if it is the one that the caller knows. Otherwise it is the epoch, the epoch
-- of the last announcement that was dropped, the number of announcements newer than the known epoch, these
-- announcements, and name, text and end of each override.
-- The reply to the other operations is the epoch, or -1 if there are too many overrides.

local call = redis.call
-- How long announcements are kept, and how many. Every instance reads several times a second.
local KEPT_US, MAX_ANNOUNCEMENTS = 60000000, 100

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local raw = call('GET', KEYS[1])
local stored = raw and cmsgpack.unpack(raw) or { epoch = 0, dropped = 0, notices = {}, tidings = {} }
local operation = ARGV[1]

if operation == 'read' then
  local known = tonumber(ARGV[2])
  if stored.epoch == known then
    return { stored.epoch }
  end
  local out = { stored.epoch, stored.dropped, 0 }
  for i = 1, #stored.tidings do
    local announcement = stored.tidings[i]
    if announcement[1] > known then
      out[#out + 1] = announcement[2]
    end
  end
  out[3] = #out - 3
  for i = 1, #stored.notices do
    local override = stored.notices[i]
    out[#out + 1], out[#out + 2], out[#out + 3] = override[1], override[2], override[3]
  end
  return out
end

-- An epoch is a time, so that no epoch is used twice, even after the key was lost.
local epoch = now > stored.epoch and now or stored.epoch + 1
local name = ARGV[2]
local overrides, lasts = {}, now + KEPT_US
for i = 1, #stored.notices do
  local override = stored.notices[i]
  if override[3] * 1000 > now and (operation == 'tell' or override[1] ~= name) then
    overrides[#overrides + 1] = override
  end
end
if operation == 'post' then
  if #overrides >= tonumber(ARGV[5]) then
    return { -1 }
  end
  overrides[#overrides + 1] = { name, ARGV[3], tonumber(ARGV[4]) }
end
for i = 1, #overrides do
  lasts = math.max(lasts, overrides[i][3] * 1000)
end

local announcements = {}
for i = 1, #stored.tidings do
  local announcement = stored.tidings[i]
  if announcement[1] + KEPT_US > now and (operation ~= 'tell' or #stored.tidings - i + 1 < MAX_ANNOUNCEMENTS) then
    announcements[#announcements + 1] = announcement
  else
    stored.dropped = math.max(stored.dropped, announcement[1])
  end
end
if operation == 'tell' then
  announcements[#announcements + 1] = { epoch, ARGV[2] }
end

stored.epoch, stored.notices, stored.tidings = epoch, overrides, announcements
call('SET', KEYS[1], cmsgpack.pack(stored), 'PX', string.format('%d', math.ceil((lasts - now) / 1000)))
-- A user without the permission to publish is not an error: instances also read periodically.
redis.pcall('PUBLISH', KEYS[1], string.format('%d', epoch))
return { epoch }
