-- A fixed window: when it began, how long it is, and what was used in it.
if families % 4 >= 2 then
  window = family()
  window.read, window.read_order = read_common, read_common

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

  function window.blank()
    return { used = 0, debt = 0 }
  end

  function window.carry(charge, used)
    return {
      window = charge.window, start = now - now % charge.window, used = math.min(used, charge.limit), debt = 0,
      prefix = charge.prefix, code = charge.code, width = charge.width,
    }
  end

  local function seen(key, charge)
    local length = charge.window
    local begun = now - now % length
    if not key.window then
      return begun, 0, 0
    end
    local start, used, debt = key.start, key.used, key.debt
    if key.window ~= length then
      used, debt = later(used, debt, now > start and floor((now - start) / key.window) or 0)
      return begun, under(used, debt, charge)
    end
    -- A window that has not begun yet stays in force, but no further away than the next boundary.
    if start > begun + length then
      start = begun + length
    end
    if start < begun then
      used, debt = later(used, debt, (begun - start) / length)
      start = begun
    end
    return start, under(used, debt, charge)
  end

  local function set(key, charge, start, used, debt)
    if key.start ~= start or key.used ~= used or key.debt ~= debt or key.window ~= charge.window then
      key.start, key.used, key.debt, key.window = start, used, debt, charge.window
      key.prefix, key.code, key.width = charge.prefix, charge.code, charge.width
      key.is_changed = true
    end
  end

  function window.fits(key, charge)
    charge.start, charge.used = seen(key, charge)
    return charge.used + charge.cost <= charge.limit
  end

  -- What passes finds nothing owed.
  function window.put(key, charge)
    set(key, charge, charge.start, charge.used + charge.cost, 0)
  end

  function window.refuse(key, charge)
    local start, used, debt = seen(key, charge)
    if used > 0 then
      set(key, charge, start, used, debt)
    end
  end

  function window.note(key, charge)
    charge.seen_start, charge.seen_used, charge.seen_debt = seen(key, charge)
  end

  function window.show(charge, out, n)
    out[n + 1], out[n + 2], out[n + 3] = charge.seen_start, charge.seen_used, charge.seen_debt
    return n + 3
  end

  function window.pack(key)
    if key.used == 0 then
      return '', 0
    end
    local number, width, used, debt = key.start / key.window, key.width, key.used, key.debt
    local till = key.start + math.ceil((used + debt) / used) * key.window
    if key.code > 0 and debt == 0 and number < 10 ^ width and used < 10 ^ (16 - width) then
      return key.code .. digits(number, width) .. digits(used, 16 - width), till
    end
    return with_debt(key.prefix .. varint(number) .. varint(used), debt), till
  end

  if has_orders then
    function window.force(key, order)
      local start, used, debt = seen(key, order)
      local fits = math.min(order.cost, order.limit - used)
      set(key, order, start, used + fits, debt)
      return fits
    end

    local function set_all(key, order, start, all)
      local used = math.min(all, order.limit)
      set(key, order, start, used, all - used)
    end

    -- What does not fit is owed.
    function window.force_as_writer(key, order)
      local start, used, debt = seen(key, order)
      local fits = math.min(order.cost, order.limit + order.max_debt - used - debt)
      set_all(key, order, start, used + debt + fits)
      return fits
    end

    local function take_off(key, order, mark)
      local start, used, debt = seen(key, order)
      if start == mark and used > 0 then
        set_all(key, order, start, math.max(used + debt - order.cost, 0))
      end
    end

    function window.give_back(key, order, from)
      local mark
      mark, from = unpack('<d', argument, from)
      take_off(key, order, mark)
      return from
    end

    -- The newest is what is owed.
    function window.credit(key, order)
      local start, used, debt = seen(key, order)
      if used > 0 then
        set_all(key, order, start, math.max(used + debt - order.cost, 0))
      end
    end
  end
end

