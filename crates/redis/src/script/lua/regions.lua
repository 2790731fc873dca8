
  -- Limits that several regions divide: the wrapper around the value of a bucket. This is the last part of `load_rare`.
  regions = {}

  -- Returns the microseconds at the whole rate that were refilled between two times, by the schedule of the call, and
  -- the thousandths of a microsecond that are left over. Without a schedule nothing was refilled.
  local function refilled(schedule, from, till, thousandths)
    local whole = 0
    for index = 1, schedule and #schedule or 0 do
      local piece = schedule[index]
      local span = min(till, piece.till) - max(from, piece.from)
      if span > 0 then
        local low = span % 1000
        whole = whole + (span - low) / 1000 * piece.rate
        thousandths = thousandths + low * piece.rate
      end
    end
    local rest = thousandths % 1000
    return whole + (thousandths - rest) / 1000, rest
  end

  -- Returns the value in a wrapper, as it is now, and what the wrapper stores.
  function regions.unwrap(raw, schedule)
    local written_at, thousandths, from
    written_at, from = read_varint(raw, 2)
    thousandths, from = read_varint(raw, from)
    local inner = sub(raw, from)
    if FAMILY_OF_TAG[byte(inner, 1)] ~= BUCKET then
      return inner, { rest = 0 }
    end
    local _, at = quota_of(inner)
    local used, part = unpack('<I7', inner, at) - written_at, sub(inner, at + 7)
    local more, rest = refilled(schedule, written_at, now, thousandths)
    if more > used or more == used and part == '' then
      used, rest, part = 0, 0, string.rep('\0', #part)
    else
      used = used - more
    end
    return sub(inner, 1, at - 1) .. pack('<I7', now + max(used, 0)) .. part, { rest = rest }
  end

  -- Returns the wrapper around a value, and the time from which the key is as unused, at the least rate.
  function regions.wrap(region, schedule, value, untouched_at)
    local least = schedule and schedule.least or 1
    local wrapper = '\10' .. varint(now) .. varint(region and region.rest or 0)
    return wrapper .. value, now + math.ceil((untouched_at - now) * 1000 / least)
  end

  return exact
end
