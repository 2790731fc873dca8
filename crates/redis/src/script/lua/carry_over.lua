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

