-- Rarely used functions, created on demand: the exact arithmetic of buckets, for states of another quota, refunds and
-- force; and if asked for, those for leased tokens and for regions. All are created by one function, which is continued
-- in token_leases.lua and regions.lua, because all other calls would pay for another one. It is created before the
-- families, when that takes the least time.
local exact, token_leases, regions
local function load_rare(is_leased)
  if token_leases or exact and not is_leased then
    return exact
  end
  exact = {}

  -- The span of n tokens, for n below 2^52 and spans below 2^53 microseconds.
  local function times(quota, n)
    local over = n % quota.den
    local parts = over * quota.token_part
    local part = parts % quota.den
    local ticks = n * quota.token + (n - over) / quota.den * quota.token_part + (parts - part) / quota.den
    return ticks, part
  end
  exact.times = times

  -- Parses the quota in the prefix of a value. Returns it and the position of the state.
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
      quota.capacity, quota.capacity_part = quota.ceiling, quota.ceiling_part
    else
      local ahead = 0
      quota.limit, from = read_varint(bytes, from)
      if tag == 1 then
        ahead, from = read_varint(bytes, from)
      end
      quota.free, quota.free_part = times(quota, quota.limit)
      quota.ceiling, quota.ceiling_part = quota.free + ahead, quota.free_part
      quota.capacity, quota.capacity_part = quota.free, quota.free_part
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

  -- Whole tokens in a span, rounded down. The division of doubles is off by at most one or two.
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

  -- The level at a given debt. Reservations count as well: a state does not distinguish them from debt.
  local function indebted(quota, max_debt)
    return plus(quota, quota.capacity, quota.capacity_part, times(quota, max_debt))
  end
  exact.indebted = indebted

  -- The highest possible level: the ceiling, or the maximum debt.
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

  -- The number of used tokens, rounded up, without the debt beyond the ceiling.
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

  -- The state of `key` as read by another quota: whole used tokens, rounded up, at most as many as that quota can hold;
  -- and the debt beyond them, rounded up, at most its maximum debt.
  function exact.adopt(key, prefix, max_debt)
    local writer, own = quota_of(key.prefix), quota_of(prefix)
    local n, owed = exact.used_tokens(writer, key.tat, key.part), 0
    if key.tat >= now and is_less(writer.ceiling, writer.ceiling_part, key.tat - now, key.part) then
      local beyond, beyond_part = minus(writer, key.tat - now, key.part, writer.ceiling, writer.ceiling_part)
      -- After a clock went back, this may be more tokens than can be counted.
      owed = max_debt
      if beyond < (max_debt + 2) * (writer.token + 1) then
        local token = writer.token + writer.token_part / writer.den
        if beyond / token < max_debt + 2 then
          owed = math.min(tokens_up(writer, beyond, beyond_part), max_debt)
        end
      end
    end
    local ticks, part = own.ceiling, own.ceiling_part
    -- A product that is not exact is far above any ceiling.
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

  if not is_leased then
    return exact
  end

