-- The board that all instances share: notices, each until its time, and tidings
-- of what an operator has done, for those who were not there. One key holds it.
--
-- KEYS[1]  the board, which is also the name of the channel that tells of changes
-- ARGV[1]  what to do: read, post, remove or tell
-- ARGV[2]  read: the epoch that the caller knows, or -1
--          post: name, text, when it ends in milliseconds, how many there may be
--          remove: name
--          tell: the tiding
--
-- The reply to `read` is the epoch alone where it is the one that is known;
-- else the epoch, that of the last tiding which was dropped, how many tidings
-- are newer than the known epoch, these, and name, text and end of each notice.
-- The reply to the others is the epoch, or -1 where there are too many.

local call = redis.call
-- For how long tidings are kept, and how many. Everybody reads several times a second.
local KEPT_US, MOST_TIDINGS = 60000000, 100

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local raw = call('GET', KEYS[1])
local board = raw and cmsgpack.unpack(raw) or { epoch = 0, dropped = 0, notices = {}, tidings = {} }
local what = ARGV[1]

if what == 'read' then
  local known = tonumber(ARGV[2])
  if board.epoch == known then
    return { board.epoch }
  end
  local out = { board.epoch, board.dropped, 0 }
  for place = 1, #board.tidings do
    local tiding = board.tidings[place]
    if tiding[1] > known then
      out[#out + 1] = tiding[2]
    end
  end
  out[3] = #out - 3
  for place = 1, #board.notices do
    local notice = board.notices[place]
    out[#out + 1], out[#out + 2], out[#out + 3] = notice[1], notice[2], notice[3]
  end
  return out
end

-- An epoch is a time, so that one is not used again after the board was lost.
local epoch = now > board.epoch and now or board.epoch + 1
local name = ARGV[2]
local notices, lasts = {}, now + KEPT_US
for place = 1, #board.notices do
  local notice = board.notices[place]
  if notice[3] * 1000 > now and (what == 'tell' or notice[1] ~= name) then
    notices[#notices + 1] = notice
  end
end
if what == 'post' then
  if #notices >= tonumber(ARGV[5]) then
    return { -1 }
  end
  notices[#notices + 1] = { name, ARGV[3], tonumber(ARGV[4]) }
end
for place = 1, #notices do
  lasts = math.max(lasts, notices[place][3] * 1000)
end

local tidings = {}
for place = 1, #board.tidings do
  local tiding = board.tidings[place]
  if tiding[1] + KEPT_US > now and (what ~= 'tell' or #board.tidings - place + 1 < MOST_TIDINGS) then
    tidings[#tidings + 1] = tiding
  else
    board.dropped = math.max(board.dropped, tiding[1])
  end
end
if what == 'tell' then
  tidings[#tidings + 1] = { epoch, ARGV[2] }
end

board.epoch, board.notices, board.tidings = epoch, notices, tidings
call('SET', KEYS[1], cmsgpack.pack(board), 'PX', string.format('%d', math.ceil((lasts - now) / 1000)))
-- Who may not be told finds out by reading.
redis.pcall('PUBLISH', KEYS[1], string.format('%d', epoch))
return { epoch }
