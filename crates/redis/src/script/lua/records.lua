-- Whether there are lines that do not decide.
local has_orders = families >= 64
families = families % 64

local byte, char, concat = string.byte, string.char, table.concat
local BUCKET, WINDOW, COUNTER, LOG, LEASES = 1, 2, 4, 8, 16
-- The first byte of a value says whose it is. Buckets have four kinds of prefix.
local FAMILY_OF_TAG = { BUCKET, BUCKET, WINDOW, COUNTER, LOG, LEASES, BUCKET, BUCKET }

-- What is known of each key of the call, by its number, and which were forgotten by it.
local records, forgotten = {}, {}

-- A number in groups of seven bits, the lowest first, and where the next one begins.
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

-- A table that has the size of what goes into it: one that grows costs more than all of it.
local function family()
  return {
    open = false, blank = false, read = false, fits = false, put = false, refuse = false, note = false, show = false,
    pack = false, carry = false, read_order = false, force = false, force_as_writer = false, give_back = false, credit = false,
    renew = false,
  }
end

