-- Leases: the holders of permits with their deadlines, and the last id that was assigned.
if families >= 16 then
  leases = family()
  leases.read, leases.read_op = read_common, read_common

  function leases.open(raw)
    local last, base, from = unpack('<I7I7', raw, 2)
    local key = { last = last, version = 0 }
    local before, after, permits
    while from <= #raw do
      before, from = read_varint(raw, from)
      after, from = read_varint(raw, from)
      permits, from = read_varint(raw, from)
      key[#key + 1] = { last - before, base + after, permits }
    end
    return key
  end

  function leases.empty()
    return { last = 0, version = 0 }
  end

  local function count_held(key, charge)
    if charge.version == key.version then
      return
    end
    local used, latest = 0, 0
    for index = 1, #key do
      local holder = key[index]
      if holder[2] > now then
        used = used + holder[3]
        if holder[2] > latest then
          latest = holder[2]
        end
      end
    end
    charge.version, charge.used, charge.latest = key.version, used, latest
  end

  -- Removes expired holders, and shortens deadlines that lie more than a lease ahead because the clock went back.
  local function drop_expired(key, charge)
    local latest = now + charge.window
    if key.cleaned_until == latest then
      return
    end
    local kept = 0
    for index = 1, #key do
      local holder = key[index]
      key[index] = nil
      if holder[2] > latest then
        -- A new table: the old one may be shared with a copy that is restored if this operation fails.
        holder = { holder[1], latest, holder[3] }
        key.is_changed = true
      end
      if holder[2] > now then
        kept = kept + 1
        key[kept] = holder
      else
        key.is_changed = true
      end
    end
    key.version = key.version + 1
    key.cleaned_until = latest
  end

  function leases.fits(key, charge)
    count_held(key, charge)
    return charge.used + charge.cost <= charge.limit
  end

  function leases.put(key, charge)
    local used = charge.used + charge.cost
    drop_expired(key, charge)
    local last = key.last
    last = now > last and now or last + 1
    key.last = last
    key[#key + 1] = { last, now + charge.window, charge.cost }
    key.version = key.version + 1
    key.is_changed = true
    charge.version, charge.used = key.version, used
    charge.latest = now + charge.window
  end

  leases.refuse = drop_expired

  function leases.save_view(key, charge)
    count_held(key, charge)
    charge.seen_used, charge.seen_latest, charge.seen_last = charge.used, charge.latest, key.last
  end

  function leases.write_view(charge, out, n)
    out[n + 1], out[n + 2], out[n + 3] = charge.seen_used, charge.seen_latest, charge.seen_last
    return n + 3
  end

  function leases.pack(key)
    if #key == 0 then
      return '', 0
    end
    local base, latest, last = key[1][2], 0, key.last
    for index = 1, #key do
      local ends_at = key[index][2]
      if ends_at < base then
        base = ends_at
      end
      if ends_at > latest then
        latest = ends_at
      end
    end
    local packed = { '\6', pack('<I7I7', last, base) }
    for index = 1, #key do
      local holder = key[index]
      packed[#packed + 1] = varint(last - holder[1]) .. varint(holder[2] - base) .. varint(holder[3])
    end
    return concat(packed), latest
  end

  if has_other_ops then
    -- Permits cannot be taken beyond the limit.
    function leases.force()
      return 0
    end
    leases.force_as_writer = leases.force

    local function find(key, mark)
      for index = 1, #key do
        if key[index][1] == mark then
          return index
        end
      end
    end

    function leases.refund(key, op, from)
      local mark
      mark, from = unpack('<d', argument, from)
      drop_expired(key, op)
      local index = find(key, mark)
      if index and op.cost > 0 then
        local holder = key[index]
        local permits = math.max(holder[3] - op.cost, 0)
        if permits == 0 then
          key[index] = key[#key]
          key[#key] = nil
        else
          key[index] = { holder[1], holder[2], permits }
        end
        key.version = key.version + 1
        key.is_changed = true
      end
      return from
    end

    -- Permits are released by their holders only.
    function leases.credit() end

    function leases.renew(key, op, mark)
      drop_expired(key, op)
      local index = find(key, mark)
      if not index then
        return 0
      end
      local holder = key[index]
      local ends_at = now + op.window
      if holder[2] ~= ends_at then
        key[index] = { holder[1], ends_at, holder[3] }
        key.version = key.version + 1
        key.is_changed = true
      end
      return 1
    end
  end
end

