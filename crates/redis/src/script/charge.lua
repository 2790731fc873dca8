-- Carries out one call: its lines in order, atomically. See script/mod.rs for
-- the layout of the argument, the values and the reply.
--
-- Numbers are doubles, so everything here is a whole number below 2^53: times
-- in microseconds since 1970, spans of time, counts. A quotient of two such
-- numbers, rounded down, is exact below 2^52.
--
-- A script does not roll back, so all lines work on records in `records`, and
-- what changed is written at the end.
--
-- A function costs time when it is made, also if it is never called: each
-- family of quotas makes its own only where the call has need of it, and what
-- is rarely needed only when it is.

local argument = ARGV[1]
local sub, format, floor, all = string.sub, string.format, math.floor, unpack
local unpack, pack = struct.unpack, struct.pack
local call = redis.call

local now, families, at = unpack('<dB', argument)
-- With a clock of the caller's own, keys must not run out by the server's.
local grace = 0
if now < 0 then
  local expiry = -now
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  -- The sender has given up and decided without this call. 1 stands for no expiry.
  if now > expiry and expiry > 1 then
    return now
  end
else
  grace = 1000000000
end

-- Most calls are one line of buckets that all must pass, each on a key of its
-- own. This deals with those where nobody else's state and no clock that went
-- back is met, without making a single function; all others go the long way.
local PLAIN = 33
if families == PLAIN then
  local times, count, first = unpack('<I4I2', argument, at + 1)
  first = first + 2
  -- Asking costs more than what is asked for, so all keys are read at once.
  local raws = count > 1 and count < 1000 and call('MGET', all(KEYS))
  if raws then
    local found = 0
    for place = 1, count do
      if raws[place] then
        found = found + 1
      end
    end
    -- What is no string looks absent to that. Read by itself it is an error.
    if found < count and call('EXISTS', all(KEYS)) > found then
      raws = false
    end
  end
  -- As long as most answers need, so that they do not grow.
  local out = { now, 0, nil, nil, nil }
  local values, spans = { nil, nil, nil }, { nil, nil, nil }
  local is_plain, passed, wanted = true, times, times
  -- They are tried all together. If there is room for fewer, then once more with those.
  repeat
    wanted = passed
    local from, shown = first, 2
    for place = 1, count do
      local _, prefix, price, bound, is_wide
      _, _, _, prefix, price, bound, _, is_wide, from = unpack('<BBI4Bc0dddB', argument, from)
      local raw
      if raws then
        raw = raws[place]
      else
        raw = call('GET', KEYS[place])
      end
      local used, tat = 0, 0
      if is_wide == 0 then
        if raw then
          local length = #prefix
          if sub(raw, 1, length) ~= prefix then
            is_plain = false
            break
          end
          tat = unpack('<I7', raw, length + 1)
          used = tat - now
          if used < 0 then
            used = 0
          elseif used > bound then
            is_plain = false
            break
          end
        end
        shown = shown + 1
        out[shown] = tat
        local after = used + wanted * price
        if after <= bound then
          values[place] = prefix .. pack('<I7', now + after)
          spans[place] = after
        else
          local most = floor((bound - used) / price)
          if most < passed then
            passed = most
          end
        end
      else
        local price_part, bound_part, den
        price_part, bound_part, den, from = unpack('<I3I3I3', argument, from)
        local part = 0
        if raw then
          local length = #prefix
          if sub(raw, 1, length) ~= prefix then
            is_plain = false
            break
          end
          tat, part = unpack('<I7I3', raw, length + 1)
          used = tat - now
        end
        out[shown + 1], out[shown + 2] = tat, part
        shown = shown + 2
        if used < 0 then
          used, part = 0, 0
        elseif used > bound or used == bound and part > bound_part then
          is_plain = false
          break
        end
        local most = 0
        while most < wanted do
          local after, after_part = used + price, part + price_part
          if after_part >= den then
            after, after_part = after + 1, after_part - den
          end
          if after > bound or after == bound and after_part > bound_part then
            break
          end
          used, part, most = after, after_part, most + 1
        end
        if most == wanted then
          values[place] = prefix .. pack('<I7I3', now + used, part)
          spans[place] = part > 0 and used + 1 or used
        elseif most < passed then
          passed = most
        end
      end
    end
  until passed == wanted or passed == 0 or not is_plain
  if is_plain then
    if passed > 0 then
      for place = 1, count do
        -- A number would be written as a double, which takes longer than all else here.
        call('SET', KEYS[place], values[place], 'PX', format('%d', floor((spans[place] + 999) / 1000) + grace))
      end
    end
    out[2] = passed
    return out
  end
  families = 1
end

-- Whether there are lines that do not decide.
local has_orders = families >= 64
families = families % 64

local byte, char, concat = string.byte, string.char, table.concat
local BUCKET, WINDOW, COUNTER, LOG, LEASES = 1, 2, 4, 8, 16
-- The first byte of a value says whose it is. Buckets have four kinds of prefix.
local FAMILY_OF_TAG = { BUCKET, BUCKET, WINDOW, COUNTER, LOG, LEASES, BUCKET, BUCKET }

-- What is known of each key of the call, by its number, and which were forgotten by it.
local records, forgotten = {}, {}

-- A number in groups of seven bits, the lowest first, and where the next one begins.
local function read_varint(bytes, from)
  local group = byte(bytes, from)
  if group < 128 then
    return group, from + 1
  end
  local value, unit = group - 128, 128
  repeat
    from = from + 1
    group = byte(bytes, from)
    value = value + group % 128 * unit
    unit = unit * 128
  until group < 128
  return value, from + 1
end

local function varint(value)
  if value < 128 then
    return char(value)
  end
  local low = value % 128
  local rest = (value - low) / 128
  if rest < 128 then
    return char(low + 128, rest)
  end
  local groups = {}
  repeat
    groups[#groups + 1] = char(low + 128)
    low = rest % 128
    rest = (rest - low) / 128
  until rest == 0
  groups[#groups + 1] = char(low)
  return concat(groups)
end

local bucket, window, counter, log, leases

-- A table that has the size of what goes into it: one that grows costs more than all of it.
local function family()
  return {
    open = false, blank = false, read = false, fits = false, put = false, refuse = false, note = false, show = false,
    pack = false, carry = false, read_order = false, force = false, force_as_writer = false, give_back = false, credit = false,
    renew = false,
  }
end

-- Of buckets, what is needed for a state of another quota, for giving back and for force.
local exact
local function exactly()
  if exact then
    return exact
  end
  exact = {}

  -- n tokens, for n below 2^52 and where that is below 2^53 microseconds.
  local function times(quota, n)
    local over = n % quota.den
    local parts = over * quota.token_part
    local part = parts % quota.den
    local ticks = n * quota.token + (n - over) / quota.den * quota.token_part + (parts - part) / quota.den
    return ticks, part
  end
  exact.times = times

  -- A quota from the prefix of a value, and where the state begins.
  local function quota_of(bytes)
    local tag, quota, from = byte(bytes, 1), {}, 2
    quota.token, from = read_varint(bytes, from)
    quota.den, quota.token_part = 1, 0
    if tag == 7 then
      quota.token = quota.token * 1000
    elseif tag < 7 then
      quota.den, from = read_varint(bytes, from)
      if quota.den > 1 then
        quota.token_part, from = read_varint(bytes, from)
      end
    end
    if tag == 2 then
      quota.queues = true
      quota.free, quota.free_part = 0, 0
      quota.limit, from = read_varint(bytes, from)
      quota.ceiling, from = read_varint(bytes, from)
      quota.ceiling_part = 0
      if quota.den > 1 then
        quota.ceiling_part, from = read_varint(bytes, from)
      end
      quota.brim, quota.brim_part = quota.ceiling, quota.ceiling_part
    else
      local ahead = 0
      quota.limit, from = read_varint(bytes, from)
      if tag == 1 then
        ahead, from = read_varint(bytes, from)
      end
      quota.free, quota.free_part = times(quota, quota.limit)
      quota.ceiling, quota.ceiling_part = quota.free + ahead, quota.free_part
      quota.brim, quota.brim_part = quota.free, quota.free_part
    end
    return quota, from
  end
  exact.quota_of = quota_of

  local function is_less(ticks, part, other, other_part)
    return ticks < other or ticks == other and part < other_part
  end
  exact.is_less = is_less

  local function minus(quota, ticks, part, other, other_part)
    if not is_less(other, other_part, ticks, part) then
      return 0, 0
    end
    if part < other_part then
      return ticks - other - 1, part + quota.den - other_part
    end
    return ticks - other, part - other_part
  end
  exact.minus = minus

  -- Whole tokens in a span, rounded down. A double comes within one or two of it.
  local function tokens(quota, ticks, part)
    local n = floor((ticks + part / quota.den) / (quota.token + quota.token_part / quota.den))
    local most, most_part = times(quota, n)
    while is_less(ticks, part, most, most_part) do
      n = n - 1
      most, most_part = times(quota, n)
    end
    repeat
      most, most_part = times(quota, n + 1)
      local fits = not is_less(ticks, part, most, most_part)
      if fits then
        n = n + 1
      end
    until not fits
    return n
  end
  exact.tokens = tokens

  local function plus(quota, ticks, part, more, more_part)
    part = part + more_part
    if part >= quota.den then
      return ticks + more + 1, part - quota.den
    end
    return ticks + more, part
  end
  exact.plus = plus

  -- Where so much is owed. Places that are promised count as well: a state does not tell them from debt.
  local function indebted(quota, max_debt)
    return plus(quota, quota.brim, quota.brim_part, times(quota, max_debt))
  end
  exact.indebted = indebted

  -- The most that may be used: the ceiling, or what may be owed.
  function exact.depth(quota, max_debt)
    local ticks, part = indebted(quota, max_debt)
    if is_less(ticks, part, quota.ceiling, quota.ceiling_part) then
      return quota.ceiling, quota.ceiling_part
    end
    return ticks, part
  end

  -- Whole tokens in a span, rounded up.
  local function tokens_up(quota, ticks, part)
    local n = tokens(quota, ticks, part)
    local whole, whole_part = times(quota, n)
    return is_less(whole, whole_part, ticks, part) and n + 1 or n
  end

  -- How many tokens are used, rounded up. What is owed beyond the ceiling is not among them.
  function exact.used_tokens(quota, tat, part)
    local ticks = 0
    if tat >= now then
      ticks = tat - now
    else
      part = 0
    end
    if is_less(quota.ceiling, quota.ceiling_part, ticks, part) then
      ticks, part = quota.ceiling, quota.ceiling_part
    end
    return tokens_up(quota, ticks, part)
  end

  -- What `key` holds, read by another quota: whole used tokens, rounded up,
  -- and no more than that can hold itself; and what is owed beyond them,
  -- likewise, no more than may be owed there.
  function exact.adopt(key, prefix, max_debt)
    local writer, own = quota_of(key.prefix), quota_of(prefix)
    local n, owed = exact.used_tokens(writer, key.tat, key.part), 0
    if key.tat >= now and is_less(writer.ceiling, writer.ceiling_part, key.tat - now, key.part) then
      local beyond, beyond_part = minus(writer, key.tat - now, key.part, writer.ceiling, writer.ceiling_part)
      -- What a clock that went back left there may be more tokens than can be counted.
      owed = max_debt
      if beyond < (max_debt + 2) * (writer.token + 1) then
        local token = writer.token + writer.token_part / writer.den
        if beyond / token < max_debt + 2 then
          owed = math.min(tokens_up(writer, beyond, beyond_part), max_debt)
        end
      end
    end
    local ticks, part = own.ceiling, own.ceiling_part
    -- Where the product is no longer exact it is far above any ceiling.
    if n * (own.token + 1) < 4503599627370496 then
      local held, held_part = times(own, n)
      if is_less(held, held_part, ticks, part) then
        ticks, part = held, held_part
      end
    end
    if owed > 0 then
      ticks, part = plus(own, ticks, part, times(own, owed))
    end
    return now + ticks, part
  end

  return exact
end

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

-- What windows, counters, logs and leases are told: a prefix, a length of time, a limit and a cost.
local function read_common(charge, from)
  charge.prefix, charge.window, charge.limit, charge.max_debt, charge.cost, charge.code, charge.width, from =
    unpack('<Bc0ddddI2B', argument, from)
  return from
end

-- What a window has used and owes beyond that, so many windows later, and what
-- the window before that one had used. Where anything is owed, `used` is the
-- whole limit of the quota that wrote it.
local function later(used, debt, windows)
  if windows == 0 then
    return used, debt, 0
  end
  local all = used + debt
  if debt == 0 or windows > floor(all / used) + 1 then
    return 0, 0, windows == 1 and used or 0
  end
  local before, left = all - (windows - 1) * used, math.max(all - windows * used, 0)
  return math.min(left, used), math.max(left - used, 0), math.min(before, used)
end

-- What is owed stands behind the counts, where programs that know no debt do not look.
local function debt_at(raw, from)
  return from <= #raw and read_varint(raw, from) or 0
end

local under, with_debt
if families % 8 >= 2 then
  -- The same under a quota's own limit: what is owed fills it, and no more than may be owed stays.
  function under(used, debt, charge)
    local limit = charge.limit
    if used > limit then
      used = limit
    end
    if debt > 0 then
      local filled = math.min(debt, limit - used)
      used, debt = used + filled, math.min(debt - filled, charge.max_debt)
    end
    return used, debt
  end

  function with_debt(value, debt)
    return debt > 0 and value .. varint(debt) or value
  end
end

-- Windows of usual lengths are written as 19 decimal digits if their counts
-- are small enough, because the server keeps such a value without a string: a
-- code for the length, the number of the window in `width` digits, and counts.
local function read_digits(raw, charge)
  local code = tonumber(sub(raw, 1, 3))
  local length, width = charge.window, charge.width
  if code ~= charge.code then
    local unit = (code - code % 100) / 100
    local ms = code % 100 * ({ 1000, 60000, 3600000, 86400000 })[unit > 4 and unit - 4 or unit]
    length, width = ms * 1000, #string.format('%.0f', floor(4102444800000 / ms))
  end
  return length, tonumber(sub(raw, 4, 3 + width)), width
end

local function digits(number, width)
  return string.format('%0' .. width .. '.0f', number)
end

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

-- A sliding window log: packed entries from `head` on in `body`, more of them
-- in `tail`, and when the oldest and the newest were made. An entry is the gap
-- to the one before it, shifted by a bit that says whether a cost other than 1
-- follows. The gap of the first one is void. What is owed beyond the entries is
-- in `debt`: as soon as one of them leaves, it becomes an entry of that moment.
if families % 16 >= 8 then
  log = family()
  log.read_order = read_common

  function log.read(charge, from)
    from = read_common(charge, from)
    charge.most, charge.least, charge.dearest, charge.is_alone, from = unpack('<dddB', argument, from)
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

  -- A log that owes has the debt as the gap of its first entry, which is void to everybody else. That it
  -- has, a group too many in `used` says, which is 0 and changes nothing for programs that know no debt.
  function log.open(raw)
    local newest, from = unpack('<I7', raw, 2)
    local span, used, head
    span, from = read_varint(raw, from)
    used, head = read_varint(raw, from)
    local debt = head - from > 1 and byte(raw, head - 1) == 0 and read_entry(raw, head) or 0
    return { body = raw, head = head, oldest = newest - span, newest = newest, used = used, debt = debt, version = 0 }
  end

  function log.blank()
    return { body = '', head = 1, oldest = 0, newest = 0, used = 0, debt = 0, version = 0 }
  end

  -- What time has paid of what `charge` holds, whose entries are in `body`.
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
      -- Where a full log has left and as much is owed, the same entries come again a window later.
      if used == limit and debt >= used and now > times[last] then
        local turns = math.min(floor((now - times[last]) / length), floor(debt / used))
        debt = debt - turns * used
        for place = first, last do
          times[place] = times[place] + turns * length
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
    for place = first, last do
      packed[#packed + 1] = entry(place > first and times[place] - times[place - 1] or 0, costs[place])
    end
    charge.body, charge.head, charge.used, charge.debt = concat(packed), 1, used, debt
    charge.oldest, charge.newest = used > 0 and times[first] or 0, used > 0 and times[last] or 0
  end

  -- The log without what has left the charge's window, following a clock that
  -- went back. It is noted in the charge, and holds until the log changes.
  local function tidy(key, charge)
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
    tidy(key, charge)
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

  function log.carry(charge, used)
    local key = log.blank()
    push(key, now, math.min(used, charge.limit))
    key.body, key.tail = concat(key.tail), nil
    key.window, key.limit, key.is_changed = charge.window, charge.limit, nil
    return key
  end

  function log.fits(key, charge)
    tidy(key, charge)
    return charge.used + charge.debt + charge.cost <= charge.limit
  end

  function log.put(key, charge)
    install(key, charge)
    push(key, now, charge.cost)
    -- Nothing of it has left yet.
    charge.version = key.version
    charge.head, charge.oldest, charge.newest, charge.used = key.head, key.oldest, key.newest, key.used
  end

  -- When the last of it has left: what is owed leaves a window later for each limit of it.
  local function last_leaves(key)
    local till = key.newest + key.window
    return key.debt > 0 and till + math.ceil(key.debt / key.limit) * key.window or till
  end

  -- A log does not say which window it was written under, but the key's time to live does: under another one it
  -- must live for another time, though nothing in it changes. (Without the right to ask, it is written each time.)
  function log.refuse(key, charge)
    install(key, charge)
    if key.used > 0 and not key.is_changed then
      local left = redis.pcall('PTTL', KEYS[key.number])
      local needed = floor((last_leaves(key) - now + 999) / 1000) + grace
      key.is_changed = type(left) ~= 'number' or left < needed - 1 or left > needed + 1
    end
  end

  function log.note(key, charge)
    tidy(key, charge)
    charge.seen = { charge.body, charge.head, charge.oldest, charge.newest, charge.used, charge.debt }
  end

  -- Of a log that owes, when that is free which the answers to a charge depend on: one more, its own
  -- cost, and everything. Each is the end of an entry that stands for all before it.
  local function show_owing(charge, out, n)
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
    for place = 1, #wanted do
      while counted < wanted[place] do
        local gap, cost
        gap, cost, head = read_entry(body, head)
        time = is_first and time or time + gap
        is_first = false
        counted = counted + cost
      end
      if wanted[place] > shown then
        out[n + 2], out[n + 3] = time, wanted[place] - shown
        n, count, shown = n + 2, count + 1, wanted[place]
      end
    end
    return n + 1, count
  end

  -- As many entries from the front as the answers can depend on.
  function log.show(charge, out, n, is_deep)
    local body, head, time, newest, used = charge.seen[1], charge.seen[2], charge.seen[3], charge.seen[4], charge.seen[5]
    local wanted = (used > charge.most and used or charge.most) - charge.least + (is_deep and charge.dearest or 1)
    local debt, counted = charge.seen[6], n + 4
    out[n + 1], out[n + 2], out[n + 3], out[counted] = used, newest, debt, 0
    if debt > 0 and charge.is_alone == 1 then
      n, out[counted] = show_owing(charge, out, n + 3)
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
    local newest, used, till = key.newest, varint(key.used), last_leaves(key)
    if key.debt > 0 then
      local _, cost, rest = read_entry(entries, 1)
      entries = entry(key.debt, cost) .. sub(entries, rest)
      used = sub(used, 1, -2) .. char(byte(used, -1) + 128, 0)
    end
    return '\5' .. pack('<I7', newest) .. varint(newest - key.oldest) .. used .. entries, till
  end

  if has_orders then
    -- Makes an entry of what is owed, as far as there is room.
    local function pay(key, order)
      local paid = math.min(key.debt, order.limit - key.used)
      if paid > 0 then
        key.debt = key.debt - paid
        push(key, now, paid)
      end
    end

    function log.force(key, order)
      install(key, order)
      local fits = math.max(math.min(order.cost, order.limit - key.used), 0)
      if fits > 0 then
        push(key, now, fits)
      end
      return fits
    end

    -- What does not fit is owed.
    function log.force_as_writer(key, order)
      install(key, order)
      local fits = math.max(math.min(order.cost, order.limit + order.max_debt - key.used - key.debt), 0)
      if fits > 0 then
        key.debt = key.debt + fits
        key.version = key.version + 1
        key.is_changed = true
        pay(key, order)
      end
      return fits
    end

    local function take_off(key, order, mark)
      install(key, order)
      local amount = order.cost
      if key.used == 0 or amount == 0 or mark < key.oldest or mark > key.newest then
        return
      end
      local body, head, time, used = key.body, key.head, key.oldest, key.used
      local rebuilt = log.blank()
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
        -- What is given back is room, which belongs first to what is owed.
        pay(key, order)
      end
    end

    function log.give_back(key, order, from)
      local mark
      mark, from = unpack('<d', argument, from)
      take_off(key, order, mark)
      return from
    end

    -- The newest first: the oldest entries that hold what is left are kept.
    function log.credit(key, order)
      install(key, order)
      -- The newest is what is owed.
      local forgiven = math.min(key.debt, order.cost)
      if forgiven > 0 then
        key.debt = key.debt - forgiven
        key.version = key.version + 1
        key.is_changed = true
      end
      local left = math.max(key.used - (order.cost - forgiven), 0)
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

local FAMILIES = { [BUCKET] = bucket, [WINDOW] = window, [COUNTER] = counter, [LOG] = log, [LEASES] = leases }

-- What a value of any family says is used by now, rounded up, by the quota that it
-- was counted under. What is owed is not carried over. (A log does not know its window: all its entries count.
-- Permits have holders, and are counted apart.)
local function used_of(raw, family)
  if family == BUCKET then
    local quota, from = exactly().quota_of(raw)
    local part = #raw > from + 6 and unpack('<I3', raw, from + 7) or 0
    return exact.used_tokens(quota, unpack('<I7', raw, from), part)
  elseif family == LOG then
    local _, from = read_varint(raw, 9)
    return (read_varint(raw, from))
  elseif family == LEASES then
    return 0
  end
  local length, number, from, width
  local is_digits = byte(raw, 1) >= 48
  if is_digits then
    length, number, width = read_digits(raw, {})
  else
    length, from = read_varint(raw, 2)
    length = length * 1000
    number, from = read_varint(raw, from)
  end
  if family == WINDOW then
    local used, debt = nil, 0
    if is_digits then
      used = tonumber(sub(raw, 4 + width))
    else
      used, from = read_varint(raw, from)
      debt = debt_at(raw, from)
    end
    local start = number * length
    return (later(used, debt, now > start and floor((now - start) / length) or 0))
  end
  local previous, current, debt = nil, nil, 0
  if is_digits then
    from = 4 + width + floor((17 - width) / 2)
    previous, current = tonumber(sub(raw, 4 + width, from - 1)), tonumber(sub(raw, from))
  else
    previous, from = read_varint(raw, from)
    current, from = read_varint(raw, from)
    debt = debt_at(raw, from)
  end
  local start, begun = number * length, now - now % length
  if start < begun then
    current, debt, previous = later(current, debt, (begun - start) / length)
    start = begun
  end
  return current + (previous > 0 and share(previous, now > start and length - (now - start) or length, length) or 0)
end

-- The record of a key as the family of `charge` reads it. What another family
-- has counted is carried over to it; where `is_receipt`, there is nothing that
-- could be given back to, and nothing is written.
local function record(number, family, charge, is_receipt)
  local before = records[number]
  if before and before.family == family then
    return before
  end
  local raw
  if before and before.is_changed then
    raw = before.rules.pack(before)
    raw = raw ~= '' and raw
  elseif before then
    raw = before.raw
  else
    raw = not forgotten[number] and call('GET', KEYS[number])
  end
  local rules = FAMILIES[family]
  local tag = raw and byte(raw, 1)
  -- Above the tags are digits: from 1 those of windows, from 5 those of counters.
  local written_by = raw and (FAMILY_OF_TAG[tag] or tag < 53 and WINDOW or COUNTER)
  local key
  if written_by == family then
    key = rules.open(raw, charge)
    key.is_known = true
  elseif is_receipt then
    return rules.blank()
  else
    local used = raw and rules.carry and used_of(raw, written_by) or 0
    key = used > 0 and rules.carry(charge, used) or rules.blank()
    key.is_carried = used > 0
    key.is_known = used > 0
  end
  if before then
    key.is_changed, key.is_known = before.is_changed, before.is_known
  end
  key.rules, key.family, key.number, key.raw = rules, family, number, raw
  records[number] = key
  return key
end

local ENFORCE, GUARD, SHADOW, WATCH, JOINED = 0, 1, 2, 3, 4

-- A refusal writes down what was carried over, so that it refills from now on.
local function refuse(charge)
  local key = charge.key
  charge.rules.refuse(key, charge)
  if key.is_carried then
    key.is_changed = true
  end
end

-- One request of several charges: all or nothing. Whether it passed, and
-- whether anything at all was refused.
local function decide(charges, shares_a_key)
  for place = 1, #charges do
    local charge = charges[place]
    if charge.mode <= GUARD and not charge.rules.fits(charge.key, charge) then
      for each = 1, #charges do
        if charges[each].mode ~= WATCH then
          refuse(charges[each])
        end
      end
      return false, true
    end
  end
  local copies = {}
  for place = 1, #charges do
    local charge = charges[place]
    if charge.mode == ENFORCE then
      local key, rules = charge.key, charge.rules
      if shares_a_key then
        if not rules.fits(key, charge) then
          for original, copy in pairs(copies) do
            for field in pairs(original) do
              original[field] = nil
            end
            for field, value in pairs(copy) do
              original[field] = value
            end
          end
          return false, true
        end
        if not copies[key] then
          -- What is appended in place must not be shared with the copy.
          if key.tail then
            key.body = key.body .. concat(key.tail)
            key.tail = nil
          end
          local copy = {}
          for field, value in pairs(key) do
            copy[field] = value
          end
          copies[key] = copy
        end
      end
      rules.put(key, charge)
    end
  end
  local is_refused = false
  local place = 1
  while place <= #charges do
    local charge = charges[place]
    local last = place
    if charge.mode == SHADOW or charge.mode == JOINED then
      -- A group of shadows: all are made, or none.
      local fits = charge.rules.fits(charge.key, charge)
      while last < #charges and charges[last + 1].mode == JOINED do
        last = last + 1
        charge = charges[last]
        fits = charge.rules.fits(charge.key, charge) and fits
      end
      for member = place, last do
        charge = charges[member]
        local key, rules = charge.key, charge.rules
        if not rules.fits(key, charge) then
          refuse(charge)
          is_refused = true
        elseif fits then
          rules.put(key, charge)
        end
      end
    end
    place = last + 1
  end
  return true, is_refused
end

local DECIDE, FORCE, GIVE_BACK, SETTLE_ABOVE, RENEW, RESET, CREDIT = 1, 2, 3, 4, 5, 6, 7

local out, n = { now }, 1
local last = #argument
while at <= last do
  local line = byte(argument, at)
  if line == DECIDE then
    local times, count, shares_a_key, is_deep
    times, count, shares_a_key, is_deep, at = unpack('<I4I2BB', argument, at + 1)
    local charges = {}
    for place = 1, count do
      local family, mode, number
      family, mode, number, at = unpack('<BBI4', argument, at)
      local rules = FAMILIES[family]
      local charge = {
        mode = mode, rules = rules, key = false, prefix = false, window = 0, limit = 0, cost = 0,
        used = 0, start = 0, version = false,
      }
      at = rules.read(charge, at)
      local key = record(number, family, charge)
      charge.key = key
      charges[place] = charge
      rules.note(key, charge)
    end
    local passed = 0
    is_deep = is_deep == 1
    local first = charges[1]
    if count == 1 and first.mode == ENFORCE then
      local rules, key = first.rules, first.key
      local fits, put = rules.fits, rules.put
      while passed < times and fits(key, first) do
        put(key, first)
        passed = passed + 1
      end
      if passed < times then
        refuse(first)
        is_deep = true
      end
    else
      while passed < times do
        local passes, is_refused = decide(charges, shares_a_key == 1)
        is_deep = is_deep or is_refused
        if not passes then
          break
        end
        passed = passed + 1
      end
    end
    n = n + 1
    out[n] = passed
    for place = 1, count do
      local charge = charges[place]
      n = charge.rules.show(charge, out, n, is_deep)
    end
  elseif line == RESET then
    local number
    number, at = unpack('<I4', argument, at + 1)
    records[number] = nil
    forgotten[number] = true
  else
    local order = {}
    local family, number
    family, number, at = unpack('<BI4', argument, at + 1)
    local rules = FAMILIES[family]
    at = rules.read_order(order, at)
    local key = record(number, family, order, line == GIVE_BACK or line == RENEW)
    if line == GIVE_BACK then
      at = rules.give_back(key, order, at)
    elseif line == CREDIT then
      rules.credit(key, order)
    else
      n = n + 1
      if line == FORCE then
        out[n] = rules.force(key, order)
      elseif line == SETTLE_ABOVE then
        out[n] = rules.force_as_writer(key, order)
      else
        local mark
        mark, at = unpack('<d', argument, at)
        out[n] = rules.renew(key, order, mark)
      end
    end
  end
end

for number, key in pairs(records) do
  if key.is_changed then
    local value, untouched_at = key.rules.pack(key)
    if untouched_at > now then
      call('SET', KEYS[number], value, 'PX', floor((untouched_at - now + 999) / 1000) + grace)
      forgotten[number] = nil
    elseif key.is_known then
      call('DEL', KEYS[number])
    end
  end
end
for number in pairs(forgotten) do
  call('DEL', KEYS[number])
end

return out
