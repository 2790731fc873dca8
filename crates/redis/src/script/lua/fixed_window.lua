-- A fixed window: its start, its length, and the usage in it.
if families % 4 >= 2 then
  window = family()
  window.read, window.read_op = read_common, read_common

  function window.open(raw, charge)
    if byte(raw, 1) >= 48 then
      local length, number, width = read_digits(raw, charge)
      return { window = length, start = number * length, used = tonumber(sub(raw, 4 + width)), debt = 0 }
    end
    local length, from = charge.window, #charge.prefix + 1
    if sub(raw, 1, from - 1) ~= charge.prefix then
      length, from = read_varint(raw, 2)
      length = length * 1000
    end
    local number, used
    number, from = read_varint(raw, from)
    used, from = read_varint(raw, from)
    return { window = length, start = number * length, used = used, debt = debt_at(raw, from) }
  end

  function window.empty()
    return { used = 0, debt = 0 }
  end

  function window.carry_over(charge, used)
    return {
      window = charge.window, start = now - now % charge.window, used = math.min(used, charge.limit), debt = 0,
      prefix = charge.prefix, code = charge.code, width = charge.width,
    }
  end

  local function read_state(key, charge)
    local length = charge.window
    local window_start = now - now % length
    if not key.window then
      return window_start, 0, 0
    end
    local start, used, debt = key.start, key.used, key.debt
    if key.window ~= length then
      used, debt = after_windows(used, debt, now > start and floor((now - start) / key.window) or 0)
      return window_start, clamp_to_limit(used, debt, charge)
    end
    -- A window in the future (the clock went back) stays active, but no further ahead than the next boundary.
    if start > window_start + length then
      start = window_start + length
    end
    if start < window_start then
      used, debt = after_windows(used, debt, (window_start - start) / length)
      start = window_start
    end
    return start, clamp_to_limit(used, debt, charge)
  end

  local function set(key, charge, start, used, debt)
    if key.start ~= start or key.used ~= used or key.debt ~= debt or key.window ~= charge.window then
      key.start, key.used, key.debt, key.window = start, used, debt, charge.window
      key.prefix, key.code, key.width = charge.prefix, charge.code, charge.width
      key.is_changed = true
    end
  end

  -- Returns whether the cost fits, and the usage.
  function window.fits(key, charge)
    local start, used = read_state(key, charge)
    charge.start, charge.used = start, used
    return used + charge.cost <= charge.limit, used
  end

  -- A request passes only without debt.
  function window.put(key, charge)
    set(key, charge, charge.start, charge.used + charge.cost, 0)
  end

  function window.refuse(key, charge)
    local start, used, debt = read_state(key, charge)
    if used > 0 then
      set(key, charge, start, used, debt)
    end
  end

  function window.save_view(key, charge)
    charge.seen_start, charge.seen_used, charge.seen_debt = read_state(key, charge)
  end

  function window.write_view(charge, out, n)
    out[n + 1], out[n + 2], out[n + 3] = charge.seen_start, charge.seen_used, charge.seen_debt
    return n + 3
  end

  function window.pack(key)
    if key.used == 0 then
      return '', 0
    end
    local number, width, used, debt = key.start / key.window, key.width, key.used, key.debt
    local ends_at = key.start + math.ceil((used + debt) / used) * key.window
    if key.code > 0 and debt == 0 and number < 10 ^ width and used < 10 ^ (16 - width) then
      return key.code .. digits(number, width) .. digits(used, 16 - width), ends_at
    end
    return with_debt(key.prefix .. varint(number) .. varint(used), debt), ends_at
  end

  if has_other_ops then
    function window.force(key, op)
      local start, used, debt = read_state(key, op)
      local fits = math.min(op.cost, op.limit - used)
      set(key, op, start, used + fits, debt)
      return fits
    end

    local function set_all(key, op, start, all)
      local used = math.min(all, op.limit)
      set(key, op, start, used, all - used)
    end

    -- What does not fit becomes debt.
    function window.force_as_writer(key, op)
      local start, used, debt = read_state(key, op)
      local fits = math.min(op.cost, op.limit + op.max_debt - used - debt)
      set_all(key, op, start, used + debt + fits)
      return fits
    end

    local function subtract(key, op, mark)
      local start, used, debt = read_state(key, op)
      if start == mark and used > 0 then
        set_all(key, op, start, math.max(used + debt - op.cost, 0))
      end
    end

    function window.refund(key, op, from)
      local mark
      mark, from = unpack('<d', argument, from)
      subtract(key, op, mark)
      return from
    end

    -- The debt is the newest usage.
    function window.credit(key, op)
      local start, used, debt = read_state(key, op)
      if used > 0 then
        set_all(key, op, start, math.max(used + debt - op.cost, 0))
      end
    end
  end
end

