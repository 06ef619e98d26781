import Contract

/// The contract's table of fields, rendered into the Lua that reads elements in the claim: what is no valid job is
/// refused before anything is written, with a reason that names the field.
enum Gate {
    static var lua: String {
        let checks = JobField.all.map {
            "  \($0.name) = { function(v, element) return \(check($0.kind)) end, [[\($0.rule)]] }"
        }
        .joined(separator: ",\n")
        let headers = JobField.forbiddenHeaders.sorted().map { "['\($0)']=1" }.joined(separator: ",")
        return """
            -- One pattern for the whole of a value: a search for what may not be there starts anew at each character.
            local function is_id(v) return type(v) == 'string' and #v <= 128 and string.find(v, ID) end
            local function is_url(v)
              return type(v) == 'string' and #v <= 8192 and string.find(v, '^[hH][tT][tT][pP][sS]?://[^/?#%c ][^%c ]*$')
            end
            local function is_urls(v)
              if type(v) ~= 'table' or #v < 1 or #v > 16 then return false end
              local n = 0
              for k, u in pairs(v) do n = n + 1 if type(k) ~= 'number' or not is_url(u) then return false end end
              return n == #v
            end
            local function is_path(v)
              if type(v) ~= 'string' or #v > 4096 or not string.find(v, '^[^/%c][^%c]*$') then return false end
              if #v <= 255 and string.byte(v) ~= 46 and not string.find(v, '/.', 1, true) then return true end
              for part in string.gmatch(v, '[^/]+') do
                if part == '..' or part == '.' or string.sub(part, 1, 5) == '.haul' or #part > 255 then return false end
              end
              return true
            end
            local DIGITS = { md5 = 32, sha1 = 40, sha256 = 64, sha512 = 128 }
            local function is_checksum(v)
              if type(v) ~= 'string' then return false end
              local a, d = string.match(v, '^(%w+):(%x+)$')
              return a and DIGITS[a] == #d
            end
            local function is_method(v) return type(v) == 'string' and #v <= 20 and v ~= 'HEAD' and string.find(v, '^[A-Z]+$') end
            local OWN = { \(headers) }
            local function are_headers(v)
              if type(v) ~= 'table' then return false end
              for name, value in pairs(v) do
                if type(name) ~= 'string' or type(value) ~= 'string' or string.find(value, '[%z\\r\\n]')
                  or not string.find(name, '^[!-9;-~]+$') or OWN[string.lower(name)] then return false end
              end
              return true
            end
            local function is_meta(v, element)
              return #element <= 4096 or #(RAW(element, 'meta') or '') <= 4096
            end
            -- By field: whether its value is right, and the rule. Others are not known, and not looked at.
            local CHECKS = {
            \(checks)
            }
            local CONTINUATION = { id = 1, v = 1, at = 1, t = 1 }
            -- The element as a table, and a reason if it is no valid job or continuation.
            local function read(element)
              if #element > \(JobField.largestElement) then return nil, 'element: must be at most \(JobField.largestElement) bytes' end
              if not string.find(element, '^%s*{') then return nil, 'element: must be a JSON object' end
              local fine, j = pcall(cjson.decode, element)
              if not fine then return nil, 'element: must be a JSON object: ' .. string.gsub(tostring(j), '^.*: ', '') end
              for name, value in pairs(j) do
                local known = CHECKS[name]
                if known and not known[1](value, element) then return j, name .. ': ' .. known[2] end
              end
              if not j.url and not j.urls then
                if not j.id then return j, 'url: is missing' end
                for name in pairs(j) do
                  if not CONTINUATION[name] then
                    return j, 'url: is missing (without it only id, v and at may be given, to continue a known job)'
                  end
                end
              elseif j.body and not j.id then
                return j, 'id: is required with a body'
              end
              return j
            end
            local function mask(url)
              if string.find(url, '^[^#?@]*$') then return url end
              url = string.gsub(url, '#.*$', '')
              url = string.gsub(url, '%?.*$', '?[masked]')
              return (string.gsub(url, '^(%a+://)[^/]*@', '%1'))
            end

            """
    }

    /// An expression over `v` and `element`.
    private static func check(_ kind: JobField.Kind) -> String {
        switch kind {
        case .url: "is_url(v)"
        case .urls: "is_urls(v)"
        case .id: "is_id(v)"
        case .path: "is_path(v)"
        case .checksum: "is_checksum(v)"
        case .method: "is_method(v)"
        case .headers: "are_headers(v)"
        case .meta: "is_meta(v, element)"
        case .choice(let choices): "(\(choices.map { "v == '\($0)'" }.joined(separator: " or ")))"
        case .integer(let range):
            "type(v) == 'number' and v >= \(range.lowerBound) and v <= \(range.upperBound) and v == math.floor(v)"
        case .number(let range): "type(v) == 'number' and v >= \(range.lowerBound) and v <= \(range.upperBound)"
        case .text(let limit): "type(v) == 'string' and #v <= \(limit)"
        }
    }
}
