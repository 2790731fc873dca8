-- Leases: who holds permits until when, and the last id that was given.
if families >= 16 then
  leases = family()
  leases.read, leases.read_order = read_common, read_common

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

  function leases.blank()
    return { last = 0, version = 0 }
  end

  local function hold(key, charge)
    if charge.version == key.version then
      return
    end
    local used, latest = 0, 0
    for place = 1, #key do
      local holder = key[place]
      if holder[2] > now then
        used = used + holder[3]
        if holder[2] > latest then
          latest = holder[2]
        end
      end
    end
    charge.version, charge.used, charge.latest = key.version, used, latest
  end

  -- Drops dead holders, and brings deadlines that a clock left ahead back into reach.
  local function tidy(key, charge)
    local latest = now + charge.window
    if key.tidied == latest then
      return
    end
    local kept = 0
    for place = 1, #key do
      local holder = key[place]
      key[place] = nil
      if holder[2] > latest then
        -- A new one: the records may share it with a copy that counts if this line fails.
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
    key.tidied = latest
  end

  function leases.fits(key, charge)
    hold(key, charge)
    return charge.used + charge.cost <= charge.limit
  end

  function leases.put(key, charge)
    local used = charge.used + charge.cost
    tidy(key, charge)
    local last = key.last
    last = now > last and now or last + 1
    key.last = last
    key[#key + 1] = { last, now + charge.window, charge.cost }
    key.version = key.version + 1
    key.is_changed = true
    charge.version, charge.used = key.version, used
    charge.latest = now + charge.window
  end

  leases.refuse = tidy

  function leases.note(key, charge)
    hold(key, charge)
    charge.seen_used, charge.seen_latest, charge.seen_last = charge.used, charge.latest, key.last
  end

  function leases.show(charge, out, n)
    out[n + 1], out[n + 2], out[n + 3] = charge.seen_used, charge.seen_latest, charge.seen_last
    return n + 3
  end

  function leases.pack(key)
    if #key == 0 then
      return '', 0
    end
    local base, latest, last = key[1][2], 0, key.last
    for place = 1, #key do
      local till = key[place][2]
      if till < base then
        base = till
      end
      if till > latest then
        latest = till
      end
    end
    local packed = { '\6', pack('<I7I7', last, base) }
    for place = 1, #key do
      local holder = key[place]
      packed[#packed + 1] = varint(last - holder[1]) .. varint(holder[2] - base) .. varint(holder[3])
    end
    return concat(packed), latest
  end

  if has_orders then
    -- A permit that is not there cannot be taken.
    function leases.force()
      return 0
    end
    leases.force_as_writer = leases.force

    local function find(key, mark)
      for place = 1, #key do
        if key[place][1] == mark then
          return place
        end
      end
    end

    function leases.give_back(key, order, from)
      local mark
      mark, from = unpack('<d', argument, from)
      tidy(key, order)
      local place = find(key, mark)
      if place and order.cost > 0 then
        local holder = key[place]
        local permits = math.max(holder[3] - order.cost, 0)
        if permits == 0 then
          key[place] = key[#key]
          key[#key] = nil
        else
          key[place] = { holder[1], holder[2], permits }
        end
        key.version = key.version + 1
        key.is_changed = true
      end
      return from
    end

    -- Permits have holders, who let go of them.
    function leases.credit() end

    function leases.renew(key, order, mark)
      tidy(key, order)
      local place = find(key, mark)
      if not place then
        return 0
      end
      local holder = key[place]
      local till = now + order.window
      if holder[2] ~= till then
        key[place] = { holder[1], till, holder[3] }
        key.version = key.version + 1
        key.is_changed = true
      end
      return 1
    end
  end
end

