// Writer and Reader: the byte format of control messages. It has variable-length integers (7 bits a
// byte) and length-prefixed strings. Whatever the bytes are, a Reader never reads past its end and
// never allocates more than its input could hold.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdlite {

class Writer {
 public:
  void U8(uint8_t v) { out_.push_back(static_cast<char>(v)); }
  void Varint(uint64_t v) {
    while (v >= 0x80) {
      out_.push_back(static_cast<char>(v | 0x80));
      v >>= 7;
    }
    out_.push_back(static_cast<char>(v));
  }
  // Small negative numbers stay small.
  void Signed(int64_t v) {
    Varint((static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63));
  }
  void Double(double v) {
    char bytes[sizeof(v)];
    memcpy(bytes, &v, sizeof(v));
    out_.append(bytes, sizeof(v));
  }
  void Text(std::string_view v) {
    Varint(v.size());
    out_.append(v);
  }
  void List(const std::vector<int64_t>& v) {
    Varint(v.size());
    for (int64_t x : v) Signed(x);
  }

  bool empty() const { return out_.empty(); }
  const std::string& bytes() const { return out_; }
  std::string Take() { return std::exchange(out_, {}); }

 private:
  std::string out_;
};

// After the first failed read ok() is false and every further read yields zeros.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(bytes) {}

  bool ok() const { return ok_; }
  bool done() const { return in_.empty(); }

  uint8_t U8() {
    if (in_.empty()) return Fail();
    const uint8_t v = static_cast<uint8_t>(in_.front());
    in_.remove_prefix(1);
    return v;
  }
  uint64_t Varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = U8();
      v |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return v;
    }
    return Fail();
  }
  int64_t Signed() {
    const uint64_t v = Varint();
    return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1);
  }
  double Double() {
    double v = 0;
    if (in_.size() < sizeof(v)) return Fail();
    memcpy(&v, in_.data(), sizeof(v));
    in_.remove_prefix(sizeof(v));
    return v;
  }
  std::string Text() { return std::string(View()); }
  // A text or bytes, where they lie.
  std::string_view View() {
    const uint64_t n = Varint();
    if (n > in_.size()) {
      Fail();
      return {};
    }
    const std::string_view v = in_.substr(0, n);
    in_.remove_prefix(n);
    return v;
  }
  std::vector<int64_t> List() {
    const uint64_t n = Varint();
    if (n > in_.size()) {  // each number takes at least one byte
      Fail();
      return {};
    }
    std::vector<int64_t> v(n);
    for (int64_t& x : v) x = Signed();
    return v;
  }
  // A number that must be below `limit`.
  uint64_t Below(uint64_t limit) {
    const uint64_t v = Varint();
    return v < limit ? v : Fail();
  }

 private:
  uint8_t Fail() {
    ok_ = false;
    in_ = {};
    return 0;
  }
  std::string_view in_;
  bool ok_ = true;
};

}  // namespace hvdlite
