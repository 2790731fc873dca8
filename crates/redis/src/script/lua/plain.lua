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

