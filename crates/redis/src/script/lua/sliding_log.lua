-- A sliding window log: packed entries from `head` on in `body`, more of them in `tail`, and the times of the oldest
-- and the newest entry. An entry is the gap to the previous one, shifted by a bit that is set if a cost other than 1
-- follows. The gap of the first entry is unused. Usage beyond the entries is in `debt`: as soon as an entry expires,
-- debt becomes an entry of that time.
if families % 16 >= 8 then
  log = family()
  log.read_op = read_common

  function log.read(charge, from)
    from = read_common(charge, from)
    charge.max_limit, charge.min_limit, charge.max_cost, charge.is_only, from = unpack('<dddB', argument, from)
    return from
  end

  local function read_entry(body, from)
    local gap, cost = nil, 1
    gap, from = read_varint(body, from)
    if gap % 2 == 1 then
      cost, from = read_varint(body, from)
    end
    return floor(gap / 2), cost, from
  end

  local function entry(gap, cost)
    if cost == 1 then
      return varint(gap * 2)
    end
    return varint(gap * 2 + 1) .. varint(cost)
  end

  -- A log with a debt stores it as the gap of its first entry, which other versions ignore. An additional group of 0 in
  -- `used` marks such a log; it does not change the number for versions without debts.
  function log.open(raw)
    local newest, from = unpack('<I7', raw, 2)
    local span, used, head
    span, from = read_varint(raw, from)
    used, head = read_varint(raw, from)
    local debt = head - from > 1 and byte(raw, head - 1) == 0 and read_entry(raw, head) or 0
    return { body = raw, head = head, oldest = newest - span, newest = newest, used = used, debt = debt, version = 0 }
  end

  function log.empty()
    return { body = '', head = 1, oldest = 0, newest = 0, used = 0, debt = 0, version = 0 }
  end

  -- Converts the debt of `charge`, whose entries are in `body`, to entries as older entries expire.
  local function repay(charge, body)
    local times, costs, first, last = {}, {}, 1, 0
    local head, time, counted = charge.head, charge.oldest, 0
    local limit, length, used = charge.limit, charge.window, charge.used
    local debt = math.min(charge.debt, charge.max_debt)
    while counted < used do
      local gap, cost
      gap, cost, head = read_entry(body, head)
      time = last > 0 and time + gap or time
      last, counted = last + 1, counted + cost
      times[last], costs[last] = time, cost
    end
    local function pay(at)
      local paid = math.min(debt, limit - used)
      if paid > 0 then
        if first <= last and at < times[last] then
          at = times[last]
        end
        last = last + 1
        times[last], costs[last] = at, paid
        used, debt = used + paid, debt - paid
      end
    end
    while used > 0 and times[first] + length <= now do
      -- If a full log has expired and the debt is as large, the same entries repeat a window later.
      if used == limit and debt >= used and now > times[last] then
        local turns = math.min(floor((now - times[last]) / length), floor(debt / used))
        debt = debt - turns * used
        for index = first, last do
          times[index] = times[index] + turns * length
        end
      end
      local left_at = times[first] + length
      if left_at <= now then
        used = used - costs[first]
        first = first + 1
        pay(left_at)
      end
    end
    pay(now)
    local packed = {}
    for index = first, last do
      packed[#packed + 1] = entry(index > first and times[index] - times[index - 1] or 0, costs[index])
    end
    charge.body, charge.head, charge.used, charge.debt = concat(packed), 1, used, debt
    charge.oldest, charge.newest = used > 0 and times[first] or 0, used > 0 and times[last] or 0
  end

  -- Computes the log without the entries that have left the charge's window, following a clock that went back. The
  -- result is stored in the charge, and is valid until the log changes.
  local function drop_expired(key, charge)
    if charge.version == key.version then
      return
    end
    if key.tail then
      key.body = key.body .. concat(key.tail)
      key.tail = nil
    end
    local head, oldest, newest, used = key.head, key.oldest, key.newest, key.used
    charge.body, charge.debt = key.body, key.debt
    if used > 0 then
      if newest > now then
        local back = newest - now
        if back > oldest then
          back = oldest
        end
        oldest, newest = oldest - back, newest - back
      end
      if key.debt > 0 then
        charge.head, charge.oldest, charge.newest, charge.used = head, oldest, newest, used
        charge.version = key.version
        return repay(charge, key.body)
      end
      local left = now - charge.window
      if newest <= left then
        oldest, newest, used = 0, 0, 0
      end
      local body = key.body
      while used > 0 and oldest <= left do
        local _, cost, next_gap
        _, cost, head = read_entry(body, head)
        used = used - cost
        next_gap = read_entry(body, head)
        oldest = oldest + next_gap
      end
    end
    charge.version = key.version
    charge.head, charge.oldest, charge.newest, charge.used = head, oldest, newest, used
  end

  local function install(key, charge)
    drop_expired(key, charge)
    if
      key.oldest ~= charge.oldest or key.newest ~= charge.newest or key.used ~= charge.used or key.debt ~= charge.debt
    then
      key.head, key.oldest, key.newest, key.used = charge.head, charge.oldest, charge.newest, charge.used
      key.body, key.debt = charge.body, charge.debt
      key.version = key.version + 1
      key.is_changed = true
      charge.version = key.version
    end
    key.window, key.limit = charge.window, charge.limit
  end

  local function push(key, time, cost)
    if key.used == 0 then
      key.body, key.head, key.tail, key.oldest, key.newest = '', 1, nil, time, time
    end
    if time < key.newest then
      time = key.newest
    end
    local tail = key.tail
    if not tail then
      tail = {}
      key.tail = tail
    end
    tail[#tail + 1] = entry(time - key.newest, cost)
    key.newest = time
    key.used = key.used + cost
    key.version = key.version + 1
    key.is_changed = true
  end

  function log.carry_over(charge, used)
    local key = log.empty()
    push(key, now, math.min(used, charge.limit))
    key.body, key.tail = concat(key.tail), nil
    key.window, key.limit, key.is_changed = charge.window, charge.limit, nil
    return key
  end

  -- Returns whether the cost fits, and the usage.
  function log.fits(key, charge)
    drop_expired(key, charge)
    local used = charge.used + charge.debt
    return used + charge.cost <= charge.limit, used
  end

  function log.put(key, charge)
    install(key, charge)
    push(key, now, charge.cost)
    -- No entry has expired yet.
    charge.version = key.version
    charge.head, charge.oldest, charge.newest, charge.used = key.head, key.oldest, key.newest, key.used
  end

  -- The time at which the last entry expires. Debt expires a window later for each multiple of the limit.
  local function last_expires(key)
    local ends_at = key.newest + key.window
    return key.debt > 0 and ends_at + math.ceil(key.debt / key.limit) * key.window or ends_at
  end

  -- A log does not store the window it was written under, but the key's time to live depends on it: under another
  -- window the key must be written again, though the log is unchanged. (Without permission for PTTL, it is written each
  -- time.)
  function log.refuse(key, charge)
    install(key, charge)
    if key.used > 0 and not key.is_changed then
      local left = redis.pcall('PTTL', KEYS[key.number])
      local needed = floor((last_expires(key) - now + 999) / 1000) + grace
      key.is_changed = type(left) ~= 'number' or left < needed - 1 or left > needed + 1
    end
  end

  function log.save_view(key, charge)
    drop_expired(key, charge)
    charge.seen = { charge.body, charge.head, charge.oldest, charge.newest, charge.used, charge.debt }
  end

  -- For a log with a debt, writes the times at which the capacity is free that the decisions depend on: for a cost of
  -- 1, for the charge's own cost, and for everything. Each is the end of an entry that represents all entries before
  -- it.
  local function write_indebted_view(charge, out, n)
    local body, head, time, used, debt =
      charge.seen[1], charge.seen[2], charge.seen[3], charge.seen[5], charge.seen[6]
    local wanted = {}
    local function want(missing)
      if missing > used then
        missing = missing - math.ceil((missing - used) / charge.limit) * charge.limit
      end
      wanted[#wanted + 1] = missing
    end
    want(used - charge.limit + debt + 1)
    if charge.cost >= 1 and charge.cost <= charge.limit then
      want(used - charge.limit + debt + charge.cost)
    end
    want(used + debt)
    table.sort(wanted)
    local counted, shown, count = 0, 0, 0
    local is_first = true
    for index = 1, #wanted do
      while counted < wanted[index] do
        local gap, cost
        gap, cost, head = read_entry(body, head)
        time = is_first and time or time + gap
        is_first = false
        counted = counted + cost
      end
      if wanted[index] > shown then
        out[n + 2], out[n + 3] = time, wanted[index] - shown
        n, count, shown = n + 2, count + 1, wanted[index]
      end
    end
    return n + 1, count
  end

  -- Writes as many entries from the front as the decisions can depend on.
  function log.write_view(charge, out, n, is_deep)
    local body, head, time, newest, used = charge.seen[1], charge.seen[2], charge.seen[3], charge.seen[4], charge.seen[5]
    local most = used > charge.max_limit and used or charge.max_limit
    local wanted = most - charge.min_limit + (is_deep and charge.max_cost or 1)
    local debt, counted = charge.seen[6], n + 4
    out[n + 1], out[n + 2], out[n + 3], out[counted] = used, newest, debt, 0
    if debt > 0 and charge.is_only == 1 then
      n, out[counted] = write_indebted_view(charge, out, n + 3)
      return n
    end
    n = counted
    if wanted > used or debt > 0 then
      wanted = used
    end
    local gap, cost
    while wanted > 0 do
      gap, cost, head = read_entry(body, head)
      if n > counted then
        time = time + gap
      end
      out[n + 1], out[n + 2] = time, cost
      n = n + 2
      wanted = wanted - cost
    end
    out[counted] = (n - counted) / 2
    return n
  end

  function log.pack(key)
    if key.used == 0 then
      return '', 0
    end
    local entries = sub(key.body, key.head)
    if key.tail then
      entries = entries .. concat(key.tail)
    end
    local newest, used, ends_at = key.newest, varint(key.used), last_expires(key)
    if key.debt > 0 then
      local _, cost, rest = read_entry(entries, 1)
      entries = entry(key.debt, cost) .. sub(entries, rest)
      used = sub(used, 1, -2) .. char(byte(used, -1) + 128, 0)
    end
    return '\5' .. pack('<I7', newest) .. varint(newest - key.oldest) .. used .. entries, ends_at
  end

  if has_other_ops then
    -- Makes an entry of the debt, as far as there is capacity.
    local function pay(key, op)
      local paid = math.min(key.debt, op.limit - key.used)
      if paid > 0 then
        key.debt = key.debt - paid
        push(key, now, paid)
      end
    end

    function log.force(key, op)
      install(key, op)
      local fits = math.max(math.min(op.cost, op.limit - key.used), 0)
      if fits > 0 then
        push(key, now, fits)
      end
      return fits
    end

    -- What does not fit becomes debt.
    function log.force_as_writer(key, op)
      install(key, op)
      local fits = math.max(math.min(op.cost, op.limit + op.max_debt - key.used - key.debt), 0)
      if fits > 0 then
        key.debt = key.debt + fits
        key.version = key.version + 1
        key.is_changed = true
        pay(key, op)
      end
      return fits
    end

    local function subtract(key, op, mark)
      install(key, op)
      local amount = op.cost
      if key.used == 0 or amount == 0 or mark < key.oldest or mark > key.newest then
        return
      end
      local body, head, time, used = key.body, key.head, key.oldest, key.used
      local rebuilt = log.empty()
      local is_first, is_taken = true, false
      while used > 0 do
        local gap, cost
        gap, cost, head = read_entry(body, head)
        used = used - cost
        if not is_first then
          time = time + gap
        end
        is_first = false
        if time == mark and amount > 0 then
          local taken = math.min(cost, amount)
          amount = amount - taken
          cost = cost - taken
          is_taken = true
        end
        if cost > 0 then
          push(rebuilt, time, cost)
        end
      end
      if is_taken then
        key.body, key.head, key.tail = '', 1, rebuilt.tail
        key.oldest, key.newest, key.used = rebuilt.oldest, rebuilt.newest, rebuilt.used
        if rebuilt.used == 0 then
          key.oldest, key.newest = 0, 0
        end
        key.version = key.version + 1
        key.is_changed = true
        -- The refunded capacity is used for the debt first.
        pay(key, op)
      end
    end

    function log.refund(key, op, from)
      local mark
      mark, from = unpack('<d', argument, from)
      subtract(key, op, mark)
      return from
    end

    -- The newest first: the oldest entries that make up the rest are kept.
    function log.credit(key, op)
      install(key, op)
      -- The debt is the newest usage.
      local forgiven = math.min(key.debt, op.cost)
      if forgiven > 0 then
        key.debt = key.debt - forgiven
        key.version = key.version + 1
        key.is_changed = true
      end
      local left = math.max(key.used - (op.cost - forgiven), 0)
      if left == key.used then
        return
      end
      key.used = left
      key.version = key.version + 1
      key.is_changed = true
      if left == 0 then
        key.body, key.head, key.oldest, key.newest = '', 1, 0, 0
        return
      end
      local from, time = key.head, key.oldest
      while true do
        local gap, cost, after = read_entry(key.body, from)
        if from > key.head then
          time = time + gap
        end
        if cost >= left then
          if cost > left then
            key.tail, after = { entry(gap, left) }, from
          end
          key.body, key.newest = sub(key.body, 1, after - 1), time
          return
        end
        left, from = left - cost, after
      end
    end
  end
end

