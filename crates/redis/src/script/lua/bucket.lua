-- A bucket: the time at which it is full again, as `tat` and `part`, a fraction of a microsecond over the denominator
-- of the quota that wrote it. `prefix` is the prefix of that quota.
if families % 2 == 1 then
  bucket = family()

  function bucket.open(raw, charge)
    local prefix = charge.prefix
    local length = #prefix
    if sub(raw, 1, length) ~= prefix then
      local _, from = load_rare().quota_of(raw)
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

  function bucket.empty()
    return { tat = 0, part = 0 }
  end

  -- Returns a key with the usage that another family has counted.
  function bucket.carry_over(charge, used)
    local quota = load_rare().quota_of(charge.prefix)
    local ticks, part = exact.times(quota, math.min(used, quota.limit))
    return { prefix = charge.prefix, tat = now + ticks, part = part, is_wide = quota.den > 1 }
  end

  -- Returns the state as read by the charge's own quota.
  local function read_state(key, charge)
    if key.prefix == charge.prefix or not key.prefix then
      return key.tat, key.part
    end
    return load_rare().adopt(key, charge.prefix, charge.max_debt)
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
    local tat, part = read_state(key, charge)
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

  -- A refusal stores a state that was carried over from another quota, and follows a clock that went back.
  function bucket.refuse(key, charge)
    if not key.prefix then
      return
    end
    local tat, part = read_state(key, charge)
    local used = tat - now
    if used > charge.bound or used == charge.bound and part > charge.bound_part then
      local own = load_rare().quota_of(charge.prefix)
      local depth, depth_part = exact.depth(own, charge.max_debt)
      if exact.is_less(depth, depth_part, used, part) then
        tat, part = now + depth, depth_part
      end
    end
    set(key, charge, tat, part)
  end

  function bucket.save_view(key, charge)
    charge.seen, charge.seen_part = read_state(key, charge)
  end

  function bucket.write_view(charge, out, n)
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

  if has_other_ops then
    function bucket.read_op(op, from)
      op.prefix, op.cost, op.max_debt, from = unpack('<Bc0dd', argument, from)
      return from
    end

    -- Charges as much as fits under `quota`. Returns the amount charged.
    local function force(key, op, quota, tat, part)
      local cost = op.cost
      op.den = quota.den
      local used, used_part = 0, 0
      if tat >= now then
        used, used_part = tat - now, part
      end
      local depth, depth_part = exact.depth(quota, op.max_debt)
      if exact.is_less(depth, depth_part, used, used_part) then
        used, used_part = depth, depth_part
      end
      if cost == 0 then
        if key.prefix then
          set(key, op, tat, part)
        end
        return 0
      end
      local room = exact.tokens(quota, exact.minus(quota, quota.capacity, quota.capacity_part, used, used_part))
      if cost <= room then
        local more, more_part = exact.times(quota, cost)
        used, used_part = used + more, used_part + more_part
        if used_part >= quota.den then
          used, used_part = used + 1, used_part - quota.den
        end
        set(key, op, now + used, used_part)
        return cost
      end
      if exact.is_less(used, used_part, quota.capacity, quota.capacity_part) then
        used, used_part = quota.capacity, quota.capacity_part
      end
      set(key, op, now + used, used_part)
      return room
    end

    function bucket.force(key, op)
      load_rare()
      local tat, part = read_state(key, op)
      return force(key, op, exact.quota_of(op.prefix), tat, part)
    end

    -- Charges the excess of a settled charge under the quota that wrote the key, so that the key keeps that quota. What
    -- does not fit becomes debt.
    function bucket.force_as_writer(key, op)
      load_rare()
      local quota = exact.quota_of(key.prefix or op.prefix)
      local max_debt = op.max_debt
      if key.prefix and key.prefix ~= op.prefix then
        max_debt = math.min(max_debt, quota.limit)
        op.prefix = key.prefix
      end
      op.den = quota.den
      local used, used_part = 0, 0
      if key.tat >= now then
        used, used_part = key.tat - now, key.part
      end
      local most, most_part = exact.indebted(quota, max_debt)
      if not exact.is_less(used, used_part, most, most_part) then
        return 0
      end
      local room = exact.tokens(quota, exact.minus(quota, most, most_part, used, used_part))
      local fits = math.min(op.cost, room)
      if op.cost <= room then
        most, most_part = exact.plus(quota, used, used_part, exact.times(quota, fits))
      end
      set(key, op, now + most, most_part)
      return fits
    end

    -- Returns whether some of the usage may be reservations. If the quota has none, usage above the capacity is debt.
    local function is_reserved(quota, used, used_part)
      return exact.is_less(quota.free, quota.free_part, quota.ceiling, quota.ceiling_part)
        and exact.is_less(quota.free, quota.free_part, used, used_part)
    end

    -- Returns the part of a span that lies beyond all possible reservations.
    local function certain_debt(quota, ticks, part, used, used_part)
      local owed, owed_part = exact.minus(quota, used, used_part, quota.ceiling, quota.ceiling_part)
      if exact.is_less(owed, owed_part, ticks, part) then
        return owed, owed_part
      end
      return ticks, part
    end

    function bucket.refund(key, op, from)
      local charged_at, mark, mark_part, charged_cost
      charged_at, mark, mark_part, charged_cost, from = unpack('<dddd', argument, from)
      load_rare()
      local own = exact.quota_of(op.prefix)
      local quota, amount = own, op.cost
      local is_foreign = key.prefix and key.prefix ~= op.prefix
      if is_foreign then
        -- Refunds no more than has not been refilled yet, and never the last position of a queue.
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
      if now < charged_at or is_reserved(quota, used, used_part) then
        local is_last = not is_foreign and key.tat == mark and key.part == mark_part
        if not (is_last and (quota.queues or amount >= charged_cost)) then
          given, given_part = certain_debt(quota, rest, rest_part, used, used_part)
        end
      else
        given, given_part = rest, rest_part
      end
      if given > 0 or given_part > 0 then
        used, used_part = exact.minus(quota, used, used_part, given, given_part)
        op.den = quota.den
        op.prefix = key.prefix or op.prefix
        set(key, op, now + used, used_part)
      end
      return from
    end

    -- Refunds without a receipt. Reservations are not refunded, because they belong to other requests.
    function bucket.credit(key, op)
      if not key.prefix then
        return
      end
      load_rare()
      local tat, part = read_state(key, op)
      local quota = exact.quota_of(op.prefix)
      op.den = quota.den
      local used, used_part = 0, 0
      if tat >= now then
        used, used_part = tat - now, part
      end
      local given, given_part = exact.times(quota, math.min(op.cost, quota.limit))
      if is_reserved(quota, used, used_part) then
        given, given_part = certain_debt(quota, given, given_part, used, used_part)
      end
      if given > 0 or given_part > 0 then
        used, used_part = exact.minus(quota, used, used_part, given, given_part)
        tat, part = now + used, used_part
      end
      set(key, op, tat, part)
    end
  end
end

