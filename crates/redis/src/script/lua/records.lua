-- The clock of the server is ahead of the times in schedules by at least `ahead_least` and at most `ahead_most`, which is
-- 0 if that is not known.
local ahead_least, ahead_most = 0, 0
if families >= 128 then
  ahead_least, ahead_most, at = unpack('<dd', argument, at)
end
-- Whether there are operations other than decide.
local has_other_ops = families % 128 >= 64
families = families % 64

local byte, char, concat = string.byte, string.char, table.concat
local BUCKET, WINDOW, COUNTER, LOG, LEASES = 1, 2, 4, 8, 16
-- The family by the first byte of a value. Buckets have four kinds of prefix. 9 and 10 are wrappers around a value: they
-- store the tokens that are leased, and when a bucket that regions divide was written.
local FAMILY_OF_TAG = { BUCKET, BUCKET, WINDOW, COUNTER, LOG, LEASES, BUCKET, BUCKET }

-- The state of each key of the call, by its number, and the keys that the call has reset: the wrapper that is left of
-- the value, or false.
local records, reset_keys = {}, {}
-- The rates at which regions refill their keys, by the number of the key; false if no key has one.
local schedules = false

-- Reads a number in groups of seven bits, the lowest first. Returns it and the position after it.
local function read_varint(bytes, from)
  local group = byte(bytes, from)
  if group < 128 then
    return group, from + 1
  end
  local value, unit = group - 128, 128
  repeat
    from = from + 1
    group = byte(bytes, from)
    value = value + group % 128 * unit
    unit = unit * 128
  until group < 128
  return value, from + 1
end

local function varint(value)
  if value < 128 then
    return char(value)
  end
  local low = value % 128
  local rest = (value - low) / 128
  if rest < 128 then
    return char(low + 128, rest)
  end
  local groups = {}
  repeat
    groups[#groups + 1] = char(low + 128)
    low = rest % 128
    rest = (rest - low) / 128
  until rest == 0
  groups[#groups + 1] = char(low)
  return concat(groups)
end

local bucket, window, counter, log, leases

-- A table with all its fields preset, because a table that grows costs more than all of them.
local function family()
  return {
    open = false, empty = false, read = false, fits = false, put = false, refuse = false, save_view = false,
    write_view = false, pack = false, carry_over = false, read_op = false, force = false, force_as_writer = false,
    refund = false, credit = false, renew = false,
  }
end

