-- A bucket: when it is full again, as `tat` and a `part` of a microsecond over
-- the denominator of the quota that wrote it, whose prefix is in `prefix`.
if families % 2 == 1 then
  bucket = family()

  function bucket.open(raw, charge)
    local prefix = charge.prefix
    local length = #prefix
    if sub(raw, 1, length) ~= prefix then
      local _, from = exactly().quota_of(raw)
      length = from - 1
      prefix = sub(raw, 1, length)
    end
    local part = 0
    local is_wide = #raw > length + 7
    if is_wide then
      part = unpack('<I3', raw, length + 8)
    end
    return { prefix = prefix, tat = unpack('<I7', raw, length + 1), part = part, is_wide = is_wide }
  end

  function bucket.blank()
    return { tat = 0, part = 0 }
  end

  -- A key that has used so much by now, as another family has counted.
  function bucket.carry(charge, used)
    local quota = exactly().quota_of(charge.prefix)
    local ticks, part = exact.times(quota, math.min(used, quota.limit))
    return { prefix = charge.prefix, tat = now + ticks, part = part, is_wide = quota.den > 1 }
  end

  -- The state as the charge's own quota reads it.
  local function seen(key, charge)
    if key.prefix == charge.prefix or not key.prefix then
      return key.tat, key.part
    end
    return exactly().adopt(key, charge.prefix, charge.max_debt)
  end

  function bucket.read(charge, from)
    local is_wide
    charge.prefix, charge.price, charge.bound, charge.max_debt, is_wide, from = unpack('<Bc0dddB', argument, from)
    charge.price_part, charge.bound_part, charge.den = 0, 0, 1
    if is_wide == 1 then
      charge.price_part, charge.bound_part, charge.den, from = unpack('<I3I3I3', argument, from)
    end
    return from
  end

  function bucket.fits(key, charge)
    local tat, part = seen(key, charge)
    local after, after_part = charge.price, charge.price_part
    if tat >= now then
      after = after + (tat - now)
      after_part = after_part + part
      if after_part >= charge.den then
        after_part = after_part - charge.den
        after = after + 1
      end
    end
    charge.after, charge.after_part = after, after_part
    local bound = charge.bound
    return after < bound or after == bound and after_part <= charge.bound_part
  end

  local function set(key, charge, tat, part)
    if key.tat ~= tat or key.part ~= part or key.prefix ~= charge.prefix then
      key.tat, key.part, key.prefix = tat, part, charge.prefix
      key.is_wide = charge.den > 1
      key.is_changed = true
    end
  end

  function bucket.put(key, charge)
    key.tat = now + charge.after
    key.part = charge.after_part
    key.prefix = charge.prefix
    key.is_wide = charge.den > 1
    key.is_changed = true
  end

  -- A refusal writes down what was carried over from another quota, and follows a clock that went back.
  function bucket.refuse(key, charge)
    if not key.prefix then
      return
    end
    local tat, part = seen(key, charge)
    local used = tat - now
    if used > charge.bound or used == charge.bound and part > charge.bound_part then
      local own = exactly().quota_of(charge.prefix)
      local depth, depth_part = exact.depth(own, charge.max_debt)
      if exact.is_less(depth, depth_part, used, part) then
        tat, part = now + depth, depth_part
      end
    end
    set(key, charge, tat, part)
  end

  function bucket.note(key, charge)
    charge.seen, charge.seen_part = seen(key, charge)
  end

  function bucket.show(charge, out, n)
    out[n + 1] = charge.seen
    if charge.den == 1 then
      return n + 1
    end
    out[n + 2] = charge.seen_part
    return n + 2
  end

  function bucket.pack(key)
    local tail = key.is_wide and pack('<I7I3', key.tat, key.part) or pack('<I7', key.tat)
    return key.prefix .. tail, key.part > 0 and key.tat + 1 or key.tat
  end

  if has_orders then
    function bucket.read_order(order, from)
      order.prefix, order.cost, order.max_debt, from = unpack('<Bc0dd', argument, from)
      return from
    end

    -- Charges what fits, in the terms of `quota`. Returns how much that was.
    local function force(key, order, quota, tat, part)
      local cost = order.cost
      order.den = quota.den
      local used, used_part = 0, 0
      if tat >= now then
        used, used_part = tat - now, part
      end
      local depth, depth_part = exact.depth(quota, order.max_debt)
      if exact.is_less(depth, depth_part, used, used_part) then
        used, used_part = depth, depth_part
      end
      if cost == 0 then
        if key.prefix then
          set(key, order, tat, part)
        end
        return 0
      end
      local room = exact.tokens(quota, exact.minus(quota, quota.brim, quota.brim_part, used, used_part))
      if cost <= room then
        local more, more_part = exact.times(quota, cost)
        used, used_part = used + more, used_part + more_part
        if used_part >= quota.den then
          used, used_part = used + 1, used_part - quota.den
        end
        set(key, order, now + used, used_part)
        return cost
      end
      if exact.is_less(used, used_part, quota.brim, quota.brim_part) then
        used, used_part = quota.brim, quota.brim_part
      end
      set(key, order, now + used, used_part)
      return room
    end

    function bucket.force(key, order)
      exactly()
      local tat, part = seen(key, order)
      return force(key, order, exact.quota_of(order.prefix), tat, part)
    end

    -- Of a settled charge, in the terms of the quota that holds the key now, so that the key keeps it.
    -- What does not fit is owed.
    function bucket.force_as_writer(key, order)
      exactly()
      local quota = exact.quota_of(key.prefix or order.prefix)
      local max_debt = order.max_debt
      if key.prefix and key.prefix ~= order.prefix then
        max_debt = math.min(max_debt, quota.limit)
        order.prefix = key.prefix
      end
      order.den = quota.den
      local used, used_part = 0, 0
      if key.tat >= now then
        used, used_part = key.tat - now, key.part
      end
      local most, most_part = exact.indebted(quota, max_debt)
      if not exact.is_less(used, used_part, most, most_part) then
        return 0
      end
      local room = exact.tokens(quota, exact.minus(quota, most, most_part, used, used_part))
      local fits = math.min(order.cost, room)
      if order.cost <= room then
        most, most_part = exact.plus(quota, used, used_part, exact.times(quota, fits))
      end
      set(key, order, now + most, most_part)
      return fits
    end

    -- Whether some of it may be places that somebody was promised. Where nothing can be, it is owed.
    local function is_promised(quota, used, used_part)
      return exact.is_less(quota.free, quota.free_part, quota.ceiling, quota.ceiling_part)
        and exact.is_less(quota.free, quota.free_part, used, used_part)
    end

    -- As much of a span as lies beyond all that can be promised.
    local function surely_owed(quota, ticks, part, used, used_part)
      local owed, owed_part = exact.minus(quota, used, used_part, quota.ceiling, quota.ceiling_part)
      if exact.is_less(owed, owed_part, ticks, part) then
        return owed, owed_part
      end
      return ticks, part
    end

    function bucket.give_back(key, order, from)
      local charged_at, mark, mark_part, charged_cost
      charged_at, mark, mark_part, charged_cost, from = unpack('<dddd', argument, from)
      exactly()
      local own = exact.quota_of(order.prefix)
      local quota, amount = own, order.cost
      local is_foreign = key.prefix and key.prefix ~= order.prefix
      if is_foreign then
        -- Worth no more than time has not refilled yet, and never the last place.
        quota = exact.quota_of(key.prefix)
        local ticks, part = exact.times(own, math.min(charged_cost, own.limit))
        local tokens = exact.tokens(own, exact.minus(own, ticks, part, math.max(now - charged_at, 0), 0))
        amount = math.min(amount, tokens)
      end
      local used, used_part = 0, 0
      if key.tat >= now then
        used, used_part = key.tat - now, key.part
      end
      local given, given_part = exact.times(quota, math.min(amount, charged_cost, quota.limit))
      local rest, rest_part = exact.minus(quota, given, given_part, math.max(now - charged_at, 0), 0)
      if now < charged_at or is_promised(quota, used, used_part) then
        local is_last = not is_foreign and key.tat == mark and key.part == mark_part
        if not (is_last and (quota.queues or amount >= charged_cost)) then
          given, given_part = surely_owed(quota, rest, rest_part, used, used_part)
        end
      else
        given, given_part = rest, rest_part
      end
      if given > 0 or given_part > 0 then
        used, used_part = exact.minus(quota, used, used_part, given, given_part)
        order.den = quota.den
        order.prefix = key.prefix or order.prefix
        set(key, order, now + used, used_part)
      end
      return from
    end

    -- Gives back without knowing which charge it was. What is promised belongs to somebody.
    function bucket.credit(key, order)
      if not key.prefix then
        return
      end
      exactly()
      local tat, part = seen(key, order)
      local quota = exact.quota_of(order.prefix)
      order.den = quota.den
      local used, used_part = 0, 0
      if tat >= now then
        used, used_part = tat - now, part
      end
      local given, given_part = exact.times(quota, math.min(order.cost, quota.limit))
      if is_promised(quota, used, used_part) then
        given, given_part = surely_owed(quota, given, given_part, used, used_part)
      end
      if given > 0 or given_part > 0 then
        used, used_part = exact.minus(quota, used, used_part, given, given_part)
        tat, part = now + used, used_part
      end
      set(key, order, tat, part)
    end
  end
end

