local ENFORCE, GUARD, SHADOW, WATCH, JOINED = 0, 1, 2, 3, 4

-- A refusal stores a state that was carried over, so that it refills from now on.
local function refuse(charge)
  local key = charge.key
  charge.rules.refuse(key, charge)
  if key.is_carried_over then
    key.is_changed = true
  end
end

-- Decides one request of several charges, all or nothing. Returns whether it passed, and whether any charge was
-- refused.
local function decide(charges, shares_a_key)
  for index = 1, #charges do
    local charge = charges[index]
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
  for index = 1, #charges do
    local charge = charges[index]
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
          -- A tail that is appended in place must not be shared with the copy.
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
  local index = 1
  while index <= #charges do
    local charge = charges[index]
    local last = index
    if charge.mode == SHADOW or charge.mode == JOINED then
      -- A group of shadows: all are charged, or none.
      local fits = charge.rules.fits(charge.key, charge)
      while last < #charges and charges[last + 1].mode == JOINED do
        last = last + 1
        charge = charges[last]
        fits = charge.rules.fits(charge.key, charge) and fits
      end
      for member = index, last do
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
    index = last + 1
  end
  return true, is_refused
end

local DECIDE, FORCE, REFUND, SETTLE_ABOVE, RENEW, RESET, CREDIT, LEASE, REFILL = 1, 2, 3, 4, 5, 6, 7, 8, 9

local out, n = { now }, 1
local last = #argument
while at <= last do
  local kind = byte(argument, at)
  if kind == DECIDE then
    local times, count, shares_a_key, is_deep
    times, count, shares_a_key, is_deep, at = unpack('<I4I2BB', argument, at + 1)
    local charges = {}
    for index = 1, count do
      local family, mode, number
      family, mode, number, at = unpack('<BBI4', argument, at)
      local rules = FAMILIES[family]
      local charge = {
        mode = mode, rules = rules, key = false, prefix = false, window = 0, limit = 0, cost = 0,
        used = 0, start = 0, version = false,
      }
      at = rules.read(charge, at)
      local key = record(number, family, charge)
      if token_leases then
        token_leases.hold(key, charge)
      end
      charge.key = key
      charges[index] = charge
      rules.save_view(key, charge)
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
    for index = 1, count do
      local charge = charges[index]
      n = charge.rules.write_view(charge, out, n, is_deep)
    end
  elseif kind == RESET then
    local number
    number, at = unpack('<I4', argument, at + 1)
    local key, raw = records[number], reset_keys[number]
    if key then
      raw = not key.is_changed and key.raw
    elseif raw == nil then
      raw = redis.pcall('GET', KEYS[number])
    end
    records[number], reset_keys[number] = nil, false
    -- Tokens that are leased stay outstanding.
    if key and key.lease then
      records[number] = token_leases.reset(key)
    elseif type(raw) == 'string' and byte(raw, 1) == 9 then
      load_rare(true)
      reset_keys[number] = token_leases.reset_value(raw)
    end
  elseif kind == REFILL then
    load_rare(true)
    local number, schedule, count = nil, { least = 0 }, nil
    number, schedule.least, count, at = unpack('<I4I2B', argument, at + 1)
    for index = 1, count do
      local piece = {}
      piece.from, piece.till, piece.rate, at = unpack('<ddI2', argument, at)
      piece.from, piece.till = piece.from + ahead_most, piece.till + ahead_least
      if ahead_most ~= 0 then
        schedule[index] = piece
      end
    end
    schedules = schedules or {}
    schedules[number] = schedule
  elseif kind == LEASE then
    local charge = { version = false }
    local family, _, number
    family, _, number, at = unpack('<BBI4', argument, at + 1)
    local rules = FAMILIES[family]
    at = rules.read(charge, at)
    local key = record(number, family, charge)
    load_rare(true)
    n, at = token_leases.lease(key, charge, at, out, n)
    token_leases.hold(key, charge)
    rules.save_view(key, charge)
    n = rules.write_view(charge, out, n)
  else
    local op = { is_receipt = kind == REFUND or kind == SETTLE_ABOVE }
    local family, number
    family, number, at = unpack('<BI4', argument, at + 1)
    local rules = FAMILIES[family]
    at = rules.read_op(op, at)
    local key = record(number, family, op, kind == REFUND or kind == RENEW)
    if token_leases and kind == FORCE then
      token_leases.hold(key, op)
    end
    if kind == REFUND then
      at = rules.refund(key, op, at)
    elseif kind == CREDIT then
      rules.credit(key, op)
    else
      n = n + 1
      if kind == FORCE then
        out[n] = rules.force(key, op)
      elseif kind == SETTLE_ABOVE then
        out[n] = rules.force_as_writer(key, op)
      else
        local mark
        mark, at = unpack('<d', argument, at)
        out[n] = rules.renew(key, op, mark)
      end
    end
  end
  if token_leases then
    token_leases.release_all(records)
  end
end

for number, key in pairs(records) do
  if key.is_changed then
    local rules = token_leases and key.lease and token_leases or key.rules
    local value, untouched_at = rules.pack(key, used_in)
    local schedule = schedules and schedules[number]
    if (key.region or schedule) and key.family == BUCKET and not key.lease and untouched_at > now then
      value, untouched_at = regions.wrap(key.region, schedule, value, untouched_at)
    end
    if untouched_at > now then
      call('SET', KEYS[number], value, 'PX', floor((untouched_at - now + 999) / 1000) + grace)
      reset_keys[number] = nil
    elseif key.is_known then
      call('DEL', KEYS[number])
      reset_keys[number] = nil
    end
  end
end
for number, wrapper in pairs(reset_keys) do
  if wrapper then
    call('SET', KEYS[number], wrapper, 'KEEPTTL')
  else
    call('DEL', KEYS[number])
  end
end

return out
