-- Reads the fields of windows, counters, logs and leases: among them a prefix, a length of time, a limit and a cost.
local function read_common(charge, from)
  charge.prefix, charge.window, charge.limit, charge.max_debt, charge.cost, charge.code, charge.width, from =
    unpack('<Bc0ddddI2B', argument, from)
  return from
end

-- Returns the usage and the debt of a window a number of windows later, and the usage of the window before that one.
-- With a debt, `used` is the whole limit of the quota that wrote it.
local function after_windows(used, debt, windows)
  if windows == 0 then
    return used, debt, 0
  end
  local all = used + debt
  if debt == 0 or windows > floor(all / used) + 1 then
    return 0, 0, windows == 1 and used or 0
  end
  local before, left = all - (windows - 1) * used, math.max(all - windows * used, 0)
  return math.min(left, used), math.max(left - used, 0), math.min(before, used)
end

-- The debt is stored after the counts, where versions without debts do not read.
local function debt_at(raw, from)
  return from <= #raw and read_varint(raw, from) or 0
end

local clamp_to_limit, with_debt
if families % 8 >= 2 then
  -- Adapts usage and debt to a quota's own limit: the debt fills the limit, and at most the maximum debt remains.
  function clamp_to_limit(used, debt, charge)
    local limit = charge.limit
    if used > limit then
      used = limit
    end
    if debt > 0 then
      local filled = math.min(debt, limit - used)
      used, debt = used + filled, math.min(debt - filled, charge.max_debt)
    end
    return used, debt
  end

  function with_debt(value, debt)
    return debt > 0 and value .. varint(debt) or value
  end
end

-- Windows of usual lengths are written as 19 decimal digits if their counts are small enough, because the server stores
-- such a value without a string: a code for the length, the number of the window in `width` digits, and counts.
local function read_digits(raw, charge)
  local code = tonumber(sub(raw, 1, 3))
  local length, width = charge.window, charge.width
  if code ~= charge.code then
    local unit = (code - code % 100) / 100
    local ms = code % 100 * ({ 1000, 60000, 3600000, 86400000 })[unit > 4 and unit - 4 or unit]
    length, width = ms * 1000, #string.format('%.0f', floor(4102444800000 / ms))
  end
  return length, tonumber(sub(raw, 4, 3 + width)), width
end

local function digits(number, width)
  return string.format('%0' .. width .. '.0f', number)
end

