-- count * span / length, rounded up, for span <= length: exact although the product may not be.
local function share(count, span, length)
  local product = count * span
  if product < 4503599627370496 then
    local over = product % length
    return over > 0 and (product - over) / length + 1 or product / length
  end
  -- Long division: digits of the count, the highest first, as large as the numbers have room for.
  local digit = 2
  while digit * digit * length * 2 <= 4503599627370496 and digit * digit <= 1048576 do
    digit = digit * digit
  end
  local digits = {}
  while count > 0 do
    local low = count % digit
    digits[#digits + 1] = low
    count = (count - low) / digit
  end
  local quotient, over = 0, 0
  for place = #digits, 1, -1 do
    local rest = over * digit + digits[place] * span
    over = rest % length
    quotient = quotient * digit + (rest - over) / length
  end
  return over > 0 and quotient + 1 or quotient
end

-- A sliding window counter: when the current window began, how long windows
-- are, and what was used in the previous and in the current one.
if families % 8 >= 4 then
  counter = family()
  counter.read, counter.read_order = read_common, read_common

  function counter.open(raw, charge)
    if byte(raw, 1) >= 48 then
      local length, number, width = read_digits(raw, charge)
      -- The larger half of what is left is the previous window's.
      local from = 4 + width + floor((17 - width) / 2)
      local previous, current = tonumber(sub(raw, 4 + width, from - 1)), tonumber(sub(raw, from))
      return { window = length, start = number * length, previous = previous, current = current, debt = 0 }
    end
    local length, from = charge.window, #charge.prefix + 1
    if sub(raw, 1, from - 1) ~= charge.prefix then
      length, from = read_varint(raw, 2)
      length = length * 1000
    end
    local number, previous, current
    number, from = read_varint(raw, from)
    previous, from = read_varint(raw, from)
    current, from = read_varint(raw, from)
    local debt = debt_at(raw, from)
    return { window = length, start = number * length, previous = previous, current = current, debt = debt }
  end

  function counter.blank()
    return { previous = 0, current = 0, debt = 0 }
  end

  function counter.carry(charge, used)
    return {
      window = charge.window, start = now - now % charge.window, previous = 0, current = math.min(used, charge.limit),
      debt = 0, prefix = charge.prefix, code = charge.code, width = charge.width,
    }
  end

  -- What of the previous window is still in sight.
  local function fading(start, previous, length)
    if previous == 0 then
      return 0
    end
    return share(previous, now > start and length - (now - start) or length, length)
  end

  local function seen(key, charge)
    local length, limit = charge.window, charge.limit
    if not key.window then
      return now - now % length, 0, 0, 0
    end
    local written = key.window
    local begun = now - now % written
    local start, previous, current, debt = key.start, key.previous, key.current, key.debt
    -- A window that has not begun yet stays in force, but no further away than the next boundary.
    if start > begun + written then
      start = begun + written
    end
    if start < begun then
      current, debt, previous = later(current, debt, (begun - start) / written)
      start = begun
    end
    if written ~= length then
      return now - now % length, 0, under(current + fading(start, previous, written), debt, charge)
    end
    return start, previous < limit and previous or limit, under(current, debt, charge)
  end

  local function set(key, charge, start, previous, current, debt)
    if
      key.start ~= start or key.previous ~= previous or key.current ~= current or key.debt ~= debt
      or key.window ~= charge.window
    then
      key.start, key.previous, key.current, key.window = start, previous, current, charge.window
      key.debt = debt
      key.prefix, key.code, key.width = charge.prefix, charge.code, charge.width
      key.is_changed = true
    end
  end

  function counter.fits(key, charge)
    local start, previous, current = seen(key, charge)
    charge.start, charge.previous, charge.current = start, previous, current
    return charge.cost + current + fading(start, previous, charge.window) <= charge.limit
  end

  -- What passes finds nothing owed.
  function counter.put(key, charge)
    set(key, charge, charge.start, charge.previous, charge.current + charge.cost, 0)
  end

  function counter.refuse(key, charge)
    local start, previous, current, debt = seen(key, charge)
    if previous > 0 or current > 0 then
      set(key, charge, start, previous, current, debt)
    end
  end

  function counter.note(key, charge)
    charge.seen_start, charge.seen_previous, charge.seen_current, charge.seen_debt = seen(key, charge)
  end

  function counter.show(charge, out, n)
    out[n + 1], out[n + 2], out[n + 3] = charge.seen_start, charge.seen_previous, charge.seen_current
    out[n + 4] = charge.seen_debt
    return n + 4
  end

  function counter.pack(key)
    local number, width, previous, current = key.start / key.window, key.width, key.previous, key.current
    local half = floor((17 - width) / 2)
    local rest = 16 - width - half
    local value, debt = nil, key.debt
    if key.code > 0 and debt == 0 and number < 10 ^ width and previous < 10 ^ half and current < 10 ^ rest then
      value = key.code .. digits(number, width) .. digits(previous, half) .. digits(current, rest)
    else
      value = with_debt(key.prefix .. varint(number) .. varint(previous) .. varint(current), debt)
    end
    if current > 0 then
      return value, key.start + (1 + math.ceil((current + debt) / current)) * key.window
    end
    return value, previous > 0 and key.start + key.window or 0
  end

  if has_orders then
    function counter.force(key, order)
      local start, previous, current, debt = seen(key, order)
      local room = order.limit - current - fading(start, previous, order.window)
      local fits = math.max(math.min(order.cost, room), 0)
      set(key, order, start, previous, current + fits, debt)
      return fits
    end

    local function set_all(key, order, start, previous, all)
      local current = math.min(all, order.limit)
      set(key, order, start, previous, current, all - current)
    end

    -- What does not fit is owed.
    function counter.force_as_writer(key, order)
      local start, previous, current, debt = seen(key, order)
      local all = current + debt
      local room = order.limit + order.max_debt - all - fading(start, previous, order.window)
      local fits = math.max(math.min(order.cost, room), 0)
      set_all(key, order, start, previous, all + fits)
      return fits
    end

    local function take_off(key, order, mark)
      local start, previous, current, debt = seen(key, order)
      if start == mark then
        set_all(key, order, start, previous, math.max(current + debt - order.cost, 0))
      elseif start - order.window == mark then
        set(key, order, start, math.max(previous - order.cost, 0), current, debt)
      end
    end

    function counter.give_back(key, order, from)
      local mark
      mark, from = unpack('<d', argument, from)
      take_off(key, order, mark)
      return from
    end

    -- The newest first, which is what is owed: what the current window does not hold, the previous one gives back.
    function counter.credit(key, order)
      local start, previous, current, debt = seen(key, order)
      if previous > 0 or current > 0 then
        local all = current + debt
        local older = math.max(order.cost - all, 0)
        set_all(key, order, start, math.max(previous - older, 0), math.max(all - order.cost, 0))
      end
    end
  end
end

