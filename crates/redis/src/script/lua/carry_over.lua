local FAMILIES = { [BUCKET] = bucket, [WINDOW] = window, [COUNTER] = counter, [LOG] = log, [LEASES] = leases }

-- Returns how much of a value of any family is used by now, rounded up, under the quota that wrote it. Debts are not
-- carried over. (A log does not store its window, so all its entries count. Permits have holders, and are not carried
-- over.)
local function used_in(raw, family)
  if family == BUCKET then
    local quota, from = load_rare().quota_of(raw)
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
    return (after_windows(used, debt, now > start and floor((now - start) / length) or 0))
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
  local start, window_start = number * length, now - now % length
  if start < window_start then
    current, debt, previous = after_windows(current, debt, (window_start - start) / length)
    start = window_start
  end
  return current + (previous > 0 and share(previous, now > start and length - (now - start) or length, length) or 0)
end

-- Returns the record of a key as read by the family of `charge`. The usage counted by another family is carried over to
-- it; with `is_receipt` there is nothing to refund, and nothing is written.
local function record(number, family, charge, is_receipt)
  local before = records[number]
  if before and before.family == family then
    return before
  end
  if before and before.lease then
    before = token_leases.release(before, records)
  end
  local raw
  if before and before.is_changed then
    raw = (before.lease and token_leases or before.rules).pack(before, used_in)
    raw = raw ~= '' and raw
  elseif before then
    raw = before.raw
  else
    raw = reset_keys[number]
    if raw == nil then
      raw = call('GET', KEYS[number])
    end
  end
  local rules, whole, lease = FAMILIES[family], raw, nil
  local region = before and before.region
  local tag = raw and byte(raw, 1)
  if tag == 9 then
    load_rare(true)
    raw, lease = token_leases.unwrap(raw)
    tag = raw and byte(raw, 1)
  end
  if tag == 10 then
    load_rare(true)
    raw, region = regions.unwrap(raw, schedules and schedules[number])
    tag = byte(raw, 1)
  end
  -- Larger bytes are digits: from '1' those of windows, from '5' those of counters.
  local written_by = raw and (FAMILY_OF_TAG[tag] or tag < 53 and WINDOW or COUNTER)
  local key
  if written_by == family then
    key = rules.open(raw, charge)
    key.is_known = true
  elseif is_receipt then
    return rules.empty()
  else
    local used = raw and rules.carry_over and used_in(raw, written_by) or 0
    key = used > 0 and rules.carry_over(charge, used) or rules.empty()
    key.is_carried_over = used > 0
    key.is_known = used > 0
  end
  if before then
    key.is_changed, key.is_known = before.is_changed, before.is_known
  end
  key.rules, key.family, key.number, key.raw = rules, family, number, whole
  if region then
    -- A refusal stores what was refilled.
    key.region, key.is_carried_over = region, true
  end
  -- Permits replace the tokens that are leased, like all other usage.
  if lease and rules.carry_over then
    token_leases.open(key, lease, charge, raw)
    key.is_changed = before and before.is_changed
  end
  records[number] = key
  return key
end

