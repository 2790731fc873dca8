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
