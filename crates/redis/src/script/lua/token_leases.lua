  -- Tokens leased ahead of requests. (The permits of leases.lua are something else.) Those *outstanding*, which are
  -- neither settled nor expired, are counted beside the state of their key, in a wrapper around its value. This is the
  -- rest of `load_rare`, which begins in bucket_exact.lua.
  token_leases = {}
  local min, max, sub, concat = math.min, math.max, string.sub, table.concat

  -- The keys that count outstanding tokens as used, until the end of the operation.
  local held_keys = {}

  -- Returns the capacity that is left under the quota of `charge`, and for a bucket also that quota, its prefix and the
  -- used span. A bucket keeps its quota when a receipt of another one is refunded or settled.
  local function room(key, charge)
    if key.tat then
      local prefix = charge.is_receipt and key.prefix or charge.prefix
      local quota, tat, part = exact.quota_of(prefix), key.tat, key.part
      if key.prefix and key.prefix ~= prefix then
        tat, part = exact.adopt(key, prefix, charge.max_debt)
      end
      local used, used_part = 0, 0
      if tat >= now then
        used, used_part = tat - now, part
      end
      local free, free_part = exact.minus(quota, quota.capacity, quota.capacity_part, used, used_part)
      return exact.tokens(quota, free, free_part), quota, prefix, used, used_part
    end
    -- What a log has computed is of another time, or lacks what was charged since.
    charge.version = false
    local _, used = key.rules.fits(key, charge)
    return charge.limit - used
  end

  -- Charges as much of `most` as fits. Returns that amount.
  local function charge_up_to(key, charge, most)
    if most == 0 then
      return 0
    end
    local left, quota, prefix, used, used_part = room(key, charge)
    local amount = min(most, left)
    if amount <= 0 then
      return 0
    elseif quota then
      used, used_part = exact.plus(quota, used, used_part, exact.times(quota, amount))
      key.tat, key.part, key.prefix, key.is_wide = now + used, used_part, prefix, quota.den > 1
      key.is_changed = true
    else
      local cost = charge.cost
      charge.cost = amount
      key.rules.put(key, charge)
      charge.cost, charge.version = cost, false
    end
    return amount
  end

  -- Charges the tokens of the generations that have ended by `time`, each at the end of its own, or all of them now.
  -- (Without a key, these tokens are dropped.)
  local function expire(lease, time, key, charge, is_now)
    local present = now
    while lease.previous + lease.current > 0 and (lease.generation + 1) * lease.length <= time do
      if key then
        now = is_now and present or (lease.generation + 1) * lease.length
        charge_up_to(key, charge, lease.previous)
      end
      lease.previous, lease.current, lease.generation = lease.current, 0, lease.generation + 1
    end
    now = present
    if key then
      charge.version = false
    end
  end

  -- A window is written in the format of its length: that of `charge`, or else that of the value it was read from.
  local function set_format(key, charge, value)
    if not key.window or key.body then
      return
    elseif key.window == charge.window then
      key.prefix, key.code, key.width = charge.prefix, charge.code, charge.width
    elseif value then
      local length_ms = key.window / 1000
      key.prefix = (key.current and '\4' or '\3') .. varint(length_ms)
      key.code, key.width = 0, 0
      if string.byte(value, 1) >= 48 then
        key.code, key.width = tonumber(sub(value, 1, 3)), #string.format('%.0f', floor(4102444800000 / length_ms))
      end
    end
  end

  local function copy_of(key)
    -- A tail that is appended in place must not be shared with the copy.
    if key.tail then
      key.body = key.body .. concat(key.tail)
      key.tail = nil
    end
    local copy = {}
    for field, value in pairs(key) do
      copy[field] = value
    end
    return copy
  end

  -- Versions without leases read the first fields as a fixed window that began in 1970 and ends when the key expires.
  local function wrap(lease, used, value, expires_at)
    used = used + lease.previous + lease.current
    return '\9' .. varint(math.ceil(expires_at / 1000)) .. '\0' .. varint(used) .. '\0' .. varint(lease.length / 1000)
      .. varint(lease.generation + 1) .. varint(lease.previous) .. varint(lease.current) .. value
  end

  -- Returns the value in a wrapper (false if the key is otherwise as unused), and what the wrapper stores. If the clock
  -- went back, a generation is no further ahead than the next one.
  function token_leases.unwrap(raw)
    local _, from = read_varint(raw, 2)
    local length, generation, previous, current
    _, from = read_varint(raw, from + 1)
    length, from = read_varint(raw, from + 1)
    length = length * 1000
    generation, from = read_varint(raw, from)
    generation = generation - 1
    previous, from = read_varint(raw, from)
    current, from = read_varint(raw, from)
    local latest = floor(now / length) + 1
    if generation > latest then
      generation, previous, current = latest, 0, previous + current
    end
    local lease = { length = length, generation = generation, previous = previous, current = current }
    return from <= #raw and sub(raw, from), lease
  end

  -- Adds what the wrapper stores to a key that was just opened. Usage carried over from another family is that of now,
  -- so the tokens of ended generations are charged now as well.
  function token_leases.open(key, lease, charge, value)
    set_format(key, charge, value)
    expire(lease, now, key, charge, key.is_carried_over)
    lease.charge = charge
    -- A refusal stores what has ended.
    key.lease, key.is_known, key.is_carried_over = lease, true, true
  end

  -- Charges what fits of a key's outstanding tokens, until the end of the operation.
  function token_leases.hold(key, charge)
    local lease = key.lease
    if not lease or key.unheld or lease.previous + lease.current == 0 then
      return
    end
    local unheld = copy_of(key)
    lease.charge = charge
    key.held = charge_up_to(key, charge, lease.previous + lease.current)
    key.unheld, key.is_changed = unheld, false
    held_keys[#held_keys + 1] = key
  end

  -- Removes `amount` of the newest entries of a log.
  local function cut(key, amount)
    local body, from, time, left = copy_of(key).body, key.head, key.oldest, key.used - amount
    key.used, key.version = max(left, 0), key.version + 1
    if left <= 0 then
      key.body, key.head, key.oldest, key.newest = '', 1, 0, 0
      return
    end
    while true do
      local gap, cost, after = nil, 1, nil
      gap, after = read_varint(body, from)
      if gap % 2 == 1 then
        cost, after = read_varint(body, after)
      end
      gap = floor(gap / 2)
      if from > key.head then
        time = time + gap
      end
      if cost >= left then
        if cost > left then
          key.tail, after = { left == 1 and varint(gap * 2) or varint(gap * 2 + 1) .. varint(left) }, from
        end
        key.body, key.newest = sub(body, 1, after - 1), time
        return
      end
      left, from = left - cost, after
    end
  end

  -- Ends the charge of outstanding tokens. Returns the state of the key without them.
  function token_leases.release(key, records)
    local unheld, held = key.unheld, key.held
    if not unheld then
      return key
    elseif not key.is_changed then
      records[key.number] = unheld
      return unheld
    end
    key.unheld = nil
    if held == 0 then
      return key
    elseif key.tat then
      local quota = exact.quota_of(key.prefix)
      local used, used_part = exact.times(quota, min(held, quota.limit))
      used, used_part = exact.minus(quota, max(key.tat - now, 0), key.part, used, used_part)
      key.tat, key.part = now + used, used_part
    elseif key.body then
      cut(key, held)
    elseif key.current then
      key.current = max(key.current - held, 0)
    else
      key.used = max(key.used - held, 0)
    end
    return key
  end

  function token_leases.release_all(records)
    for index = #held_keys, 1, -1 do
      token_leases.release(held_keys[index], records)
      held_keys[index] = nil
    end
  end

  -- Settles earlier leases and leases tokens, with the arguments at `from`. Writes the result, without the state.
  -- Returns the position after it and the position after the arguments.
  function token_leases.lease(key, charge, from, out, n)
    local unpack, argument = struct.unpack, ARGV[1]
    local wanted, most, length, count
    wanted, most, length, count, from = unpack('<dddd', argument, from)
    length = length * 1000
    local lease = key.lease or { length = length, generation = 0, previous = 0, current = 0 }
    for _ = 1, count do
      local generation, spent, returned
      generation, spent, returned, from = unpack('<ddd', argument, from)
      local counter = generation == lease.generation and 'current' or generation == lease.generation - 1 and 'previous'
      if counter then
        spent = min(spent, lease[counter])
        charge_up_to(key, charge, spent)
        lease[counter] = max(lease[counter] - spent - returned, 0)
      end
    end
    local outstanding = lease.previous + lease.current
    if outstanding == 0 then
      lease.length, lease.generation = length, floor(now / length)
    end
    -- Like a refusal, this stores a state that was carried over.
    key.is_changed = key.is_changed or key.is_carried_over
    key.rules.refuse(key, charge)
    set_format(key, charge)
    local granted = max(min(wanted, most - outstanding, (room(key, charge)) - outstanding), 0)
    lease.current, lease.charge = lease.current + granted, charge
    if granted > 0 then
      key.lease, key.is_changed, key.is_carried_over = lease, true, true
    end
    local ends_after = (lease.generation + 2) * lease.length - now
    out[n + 1], out[n + 2], out[n + 3] = granted, lease.generation, min(ends_after, 2 * lease.length)
    out[n + 4] = outstanding + granted
    return n + 4, from
  end

  -- Returns the value of a key, and the time from which it is as unused: after its outstanding tokens were charged, each
  -- at the end of their generation.
  function token_leases.pack(key, used_in)
    local lease, value, untouched_at = key.lease, '', 0
    if key.prefix or key.body then
      value, untouched_at = key.rules.pack(key)
    end
    if lease.previous + lease.current == 0 then
      return value, untouched_at
    elseif untouched_at <= now then
      value = ''
    end
    local used = value ~= '' and used_in(value, key.family) or 0
    local later, spent = copy_of(lease), copy_of(key)
    expire(later, math.huge, spent, lease.charge)
    local _, spent_until = key.rules.pack(spent)
    untouched_at = max(untouched_at, spent_until, later.generation * later.length)
    return wrap(lease, used, value, untouched_at), untouched_at
  end

  -- Returns the record of a key after a reset, which keeps outstanding tokens.
  function token_leases.reset(key)
    if key.lease.previous + key.lease.current == 0 then
      return nil
    end
    local empty = key.rules.empty()
    empty.rules, empty.family, empty.number, empty.raw = key.rules, key.family, key.number, key.raw
    empty.lease, empty.is_known, empty.is_changed, empty.is_carried_over = key.lease, true, true, true
    return empty
  end

  -- The same for a value: returns the wrapper, or false if it is not needed any more.
  function token_leases.reset_value(raw)
    local _, lease = token_leases.unwrap(raw)
    expire(lease, now)
    return lease.previous + lease.current > 0 and wrap(lease, 0, '', (lease.generation + 2) * lease.length)
  end
