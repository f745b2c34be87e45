#include "engine/tune/saved.h"

#include <sstream>

namespace hvdlite::engine {
namespace {

std::string InWords(const JobShape& shape) {
  return std::to_string(shape.ranks) + " ranks on " + std::to_string(shape.hosts) + " hosts";
}

constexpr char kFirstLine[] = "hvdlite autotune 1";

// "8 ranks on 2 hosts"
bool ReadShape(const std::string& line, JobShape* shape) {
  std::istringstream in(line);
  std::string ranks, on, hosts;
  return static_cast<bool>(in >> shape->ranks >> ranks >> on >> shape->hosts >> hosts) &&
         ranks == "ranks" && on == "on" && hosts == "hosts";
}

// "cycle_time 2": the name and the notch. What follows is for people.
bool ReadDial(const std::string& line, Setting* setting) {
  std::istringstream in(line);
  std::string name;
  int notch = 0;
  if (!(in >> name >> notch)) return false;
  for (int d = 0; d < kDialCount; ++d) {
    const auto dial = static_cast<Dial>(d);
    if (name != Name(dial)) continue;
    const DialRange range = WidestRange(dial);
    setting->at(dial) = notch;
    return notch >= range.lowest && notch <= range.highest;
  }
  return false;
}

}  // namespace

std::string SavedText(const Setting& setting, const JobShape& shape, const Config& config) {
  std::string text = std::string(kFirstLine) + "\n" + InWords(shape) + "\n";
  for (int d = 0; d < kDialCount; ++d) {
    const auto dial = static_cast<Dial>(d);
    text += std::string(Name(dial)) + " " + std::to_string(setting.at(dial)) + "  # " +
            ValueOf(dial, setting, config) + "\n";
  }
  return text;
}

std::optional<Setting> ReadSaved(const std::string& text, const JobShape& shape, std::string* why) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) {
    *why = "it is not a result of autotuning that this version reads";
    return std::nullopt;
  }
  JobShape theirs;
  if (!std::getline(lines, line) || !ReadShape(line, &theirs)) {
    *why = "its second line is not like '8 ranks on 2 hosts'";
    return std::nullopt;
  }
  if (theirs.ranks != shape.ranks || theirs.hosts != shape.hosts) {
    *why = "it is of a job of " + InWords(theirs) + ", and this one has " + InWords(shape);
    return std::nullopt;
  }
  Setting setting;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    if (ReadDial(line, &setting)) continue;
    *why = "this version does not understand its line '" + line + "'";
    return std::nullopt;
  }
  return setting;
}

}  // namespace hvdlite::engine
