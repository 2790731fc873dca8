-- count * span / length, rounded up, for span <= length. Exact, even if the product is not.
local function share(count, span, length)
  local product = count * span
  if product < 4503599627370496 then
    local over = product % length
    return over > 0 and (product - over) / length + 1 or product / length
  end
  -- Long division by digits of the count, the highest first, in the largest base that stays exact.
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
  for index = #digits, 1, -1 do
    local rest = over * digit + digits[index] * span
    over = rest % length
    quotient = quotient * digit + (rest - over) / length
  end
  return over > 0 and quotient + 1 or quotient
end

-- A sliding window counter: the start of the current window, the length of windows, and the usage in the previous and
-- the current one.
if families % 8 >= 4 then
  counter = family()
  counter.read, counter.read_op = read_common, read_common

  function counter.open(raw, charge)
    if byte(raw, 1) >= 48 then
      local length, number, width = read_digits(raw, charge)
      -- The larger half of the remaining digits is the previous window.
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

  function counter.empty()
    return { previous = 0, current = 0, debt = 0 }
  end

  function counter.carry_over(charge, used)
    return {
      window = charge.window, start = now - now % charge.window, previous = 0, current = math.min(used, charge.limit),
      debt = 0, prefix = charge.prefix, code = charge.code, width = charge.width,
    }
  end

  -- The part of the previous window that still counts.
  local function weighted_previous(start, previous, length)
    if previous == 0 then
      return 0
    end
    return share(previous, now > start and length - (now - start) or length, length)
  end

  local function read_state(key, charge)
    local length, limit = charge.window, charge.limit
    if not key.window then
      return now - now % length, 0, 0, 0
    end
    local written = key.window
    local window_start = now - now % written
    local start, previous, current, debt = key.start, key.previous, key.current, key.debt
    -- A window in the future (the clock went back) stays active, but no further ahead than the next boundary.
    if start > window_start + written then
      start = window_start + written
    end
    if start < window_start then
      current, debt, previous = after_windows(current, debt, (window_start - start) / written)
      start = window_start
    end
    if written ~= length then
      return now - now % length, 0, clamp_to_limit(current + weighted_previous(start, previous, written), debt, charge)
    end
    return start, previous < limit and previous or limit, clamp_to_limit(current, debt, charge)
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

  -- Returns whether the cost fits, and the usage.
  function counter.fits(key, charge)
    local start, previous, current = read_state(key, charge)
    charge.start, charge.previous, charge.current = start, previous, current
    local used = current + weighted_previous(start, previous, charge.window)
    return charge.cost + used <= charge.limit, used
  end

  -- A request passes only without debt.
  function counter.put(key, charge)
    set(key, charge, charge.start, charge.previous, charge.current + charge.cost, 0)
  end

  function counter.refuse(key, charge)
    local start, previous, current, debt = read_state(key, charge)
    if previous > 0 or current > 0 then
      set(key, charge, start, previous, current, debt)
    end
  end

  function counter.save_view(key, charge)
    charge.seen_start, charge.seen_previous, charge.seen_current, charge.seen_debt = read_state(key, charge)
  end

  function counter.write_view(charge, out, n)
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

  if has_other_ops then
    function counter.force(key, op)
      local start, previous, current, debt = read_state(key, op)
      local room = op.limit - current - weighted_previous(start, previous, op.window)
      local fits = math.max(math.min(op.cost, room), 0)
      set(key, op, start, previous, current + fits, debt)
      return fits
    end

    local function set_all(key, op, start, previous, all)
      local current = math.min(all, op.limit)
      set(key, op, start, previous, current, all - current)
    end

    -- What does not fit becomes debt.
    function counter.force_as_writer(key, op)
      local start, previous, current, debt = read_state(key, op)
      local all = current + debt
      local room = op.limit + op.max_debt - all - weighted_previous(start, previous, op.window)
      local fits = math.max(math.min(op.cost, room), 0)
      set_all(key, op, start, previous, all + fits)
      return fits
    end

    local function subtract(key, op, mark)
      local start, previous, current, debt = read_state(key, op)
      if start == mark then
        set_all(key, op, start, previous, math.max(current + debt - op.cost, 0))
      elseif start - op.window == mark then
        set(key, op, start, math.max(previous - op.cost, 0), current, debt)
      end
    end

    function counter.refund(key, op, from)
      local mark
      mark, from = unpack('<d', argument, from)
      subtract(key, op, mark)
      return from
    end

    -- The newest first, which is the debt: what exceeds the current window is refunded from the previous one.
    function counter.credit(key, op)
      local start, previous, current, debt = read_state(key, op)
      if previous > 0 or current > 0 then
        local all = current + debt
        local older = math.max(op.cost - all, 0)
        set_all(key, op, start, math.max(previous - older, 0), math.max(all - op.cost, 0))
      end
    end
  end
end

