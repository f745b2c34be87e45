// Little-endian integers in strings, and a reader that cannot run over the end: the building blocks
// of docs/how-it-works/wire.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace hvdlite::rendezvous {

template <typename T>
void AppendInteger(std::string* out, T value) {
  using U = std::make_unsigned_t<T>;
  for (size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(
        static_cast<char>(static_cast<uint64_t>(static_cast<U>(value)) >> (8 * i) & 0xff));
  }
}

// `data` holds at least sizeof(T) bytes.
template <typename T>
T LoadInteger(const char* data) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= uint64_t{static_cast<uint8_t>(data[i])} << (8 * i);
  return static_cast<T>(value);
}

// Takes values off the front of borrowed bytes. Returns false, and takes nothing, if there are not
// enough bytes.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  bool TakeInteger(T* value) {
    if (rest_.size() < sizeof(T)) return false;
    *value = LoadInteger<T>(
        rest_.data());  // NOLINT(bugprone-suspicious-stringview-data-usage): long enough, see above
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  // `bytes` may come from the wire: any 64-bit number is safe here.
  bool TakeBytes(uint64_t bytes, std::string* value) {
    if (rest_.size() < bytes) return false;
    value->assign(rest_.substr(0, static_cast<size_t>(bytes)));
    rest_.remove_prefix(static_cast<size_t>(bytes));
    return true;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace hvdlite::rendezvous
