#include "engine/negotiate/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/list.h"

namespace hvdlite::engine {
namespace {

Request Ask(const std::string& name, OpKind kind = OpKind::kAllreduce, Shape shape = {4}) {
  Request r;
  r.name = name;
  r.kind = kind;
  r.shape = std::move(shape);
  return r;
}

std::vector<std::string> Names(const std::vector<Tally*>& tallies) {
  std::vector<std::string> names;
  for (const Tally* tally : tallies) names.push_back(tally->agreed->request.name);
  return names;
}

using List = std::vector<std::string>;

TEST(Ledger, operations_are_ready_in_the_order_in_which_their_last_member_asked) {
  Ledger ledger(2, 10);
  EXPECT_TRUE(ledger.Add(0, Ask("a"), 1));
  EXPECT_TRUE(ledger.Add(0, Ask("b"), 2));
  EXPECT_TRUE(ledger.TakeReady().empty());
  EXPECT_EQ(ledger.pending().size(), 2u);
  EXPECT_TRUE(ledger.Add(1, Ask("b"), 3));
  EXPECT_TRUE(ledger.Add(1, Ask("a"), 4));
  EXPECT_EQ(Names(ledger.TakeReady()), (List{"b", "a"}));
  EXPECT_TRUE(ledger.pending().empty());
}

TEST(Ledger, what_makes_no_sense_is_refused) {
  Ledger ledger(2, 10);
  EXPECT_TRUE(ledger.Add(0, Ask("a"), 0));
  EXPECT_FALSE(ledger.Add(0, Ask("a"), 0)) << "asked twice";
  EXPECT_FALSE(ledger.AddCached(1, 77, 0)) << "a slot that was never given";
  EXPECT_FALSE(ledger.Add(1, Ask("g", OpKind::kAllgather, {}), 0))
      << "rows of a tensor without dimensions";
  EXPECT_FALSE(ledger.Add(1, Ask("t", OpKind::kAlltoall, {4}), 0))
      << "splits for another number of members";
  Request broadcast = Ask("r", OpKind::kBroadcast);
  for (const int64_t root : {int64_t{-1}, int64_t{2}, INT64_MAX}) {
    broadcast.root = root;
    EXPECT_FALSE(ledger.Add(1, broadcast, 0)) << root;
  }
  EXPECT_TRUE(ledger.Add(0, Ask("join", OpKind::kJoin), 0));
  EXPECT_FALSE(ledger.Add(0, Ask("join", OpKind::kJoin), 0)) << "joined twice";
}

TEST(Ledger, what_a_member_asks_for_after_it_has_joined_is_refused_and_begins_no_round) {
  Ledger ledger(2, 10);
  for (int member : {0, 1}) EXPECT_TRUE(ledger.Add(member, Ask("a"), 0));
  const std::vector<Tally*> ready = ledger.TakeReady();
  ASSERT_EQ(ready.size(), 1u);
  const uint64_t slot = ledger.SlotFor(ready[0]);
  ledger.Settle(ready[0], /*remember=*/true);
  EXPECT_TRUE(ledger.Add(1, Ask("join", OpKind::kJoin), 0));
  EXPECT_FALSE(ledger.Add(1, Ask("a"), 0));
  EXPECT_FALSE(ledger.Add(1, Ask("b"), 0));
  EXPECT_FALSE(ledger.AddCached(1, slot, 0));
  EXPECT_TRUE(ledger.pending().empty());
  ledger.FindTornGroups();
}

TEST(Ledger, a_member_that_asked_and_was_complete_must_not_ask_again_before_the_round_is_settled) {
  Ledger ledger(1, 10);
  EXPECT_TRUE(ledger.Add(0, Ask("a"), 0));
  EXPECT_FALSE(ledger.Add(0, Ask("a"), 0));
  for (Tally* tally : ledger.TakeReady()) ledger.Settle(tally, true);
  EXPECT_TRUE(ledger.Add(0, Ask("a"), 0));
}

TEST(Ledger, slots_stand_for_what_was_said_last_time) {
  Ledger ledger(2, 10);
  ledger.Add(0, Ask("g", OpKind::kAllgather, {3, 2}), 0);
  ledger.Add(1, Ask("g", OpKind::kAllgather, {5, 2}), 0);
  auto ready = ledger.TakeReady();
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_NE(ready[0]->agreed, ready[0]->remembered);
  EXPECT_EQ(ready[0]->agreed->rows, (std::vector<int64_t>{3, 5}));
  const uint64_t slot = ledger.SlotFor(ready[0]);
  EXPECT_NE(slot, kNoSlot);
  ledger.Settle(ready[0], true);

  // All by slot.
  EXPECT_TRUE(ledger.AddCached(1, slot, 0));
  EXPECT_TRUE(ledger.AddCached(0, slot, 0));
  ready = ledger.TakeReady();
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0]->agreed, ready[0]->remembered);
  EXPECT_EQ(ready[0]->agreed->rows, (std::vector<int64_t>{3, 5}));
  ledger.Settle(ready[0], true);

  // One by slot, then one in full; and the other way round.
  for (const bool full_first : {false, true}) {
    if (!full_first) {
      EXPECT_TRUE(ledger.AddCached(0, slot, 0));
    }
    EXPECT_TRUE(ledger.Add(1, Ask("g", OpKind::kAllgather, {full_first ? 9 : 7, 2}), 0));
    if (full_first) {
      EXPECT_TRUE(ledger.AddCached(0, slot, 0));
    }
    ready = ledger.TakeReady();
    ASSERT_EQ(ready.size(), 1u);
    EXPECT_NE(ready[0]->agreed, ready[0]->remembered);
    EXPECT_TRUE(ready[0]->dissent.empty());
    EXPECT_EQ(ready[0]->agreed->rows, (std::vector<int64_t>{3, full_first ? 9 : 7}));
    EXPECT_EQ(ledger.SlotFor(ready[0]), slot);
    ledger.Settle(ready[0], true);
  }
}

TEST(Ledger, alltoall_by_slot_says_its_splits) {
  Ledger ledger(2, 10);
  Request a = Ask("t", OpKind::kAlltoall, {3});
  a.splits = {1, 2};
  Request b = Ask("t", OpKind::kAlltoall, {7});
  b.splits = {3, 4};
  ledger.Add(0, a, 0);
  ledger.Add(1, b, 0);
  auto ready = ledger.TakeReady();
  EXPECT_EQ(ready[0]->agreed->rows, (std::vector<int64_t>{1, 2, 3, 4}));
  const uint64_t slot = ledger.SlotFor(ready[0]);
  ledger.Settle(ready[0], true);
  b.splits = {7, 0};
  EXPECT_TRUE(ledger.AddCached(0, slot, 0));
  EXPECT_TRUE(ledger.Add(1, b, 0));
  ready = ledger.TakeReady();
  EXPECT_EQ(ready[0]->agreed->rows, (std::vector<int64_t>{1, 2, 7, 0}));
}

TEST(Ledger, dissent_is_recorded_whether_it_comes_by_slot_or_in_full) {
  Ledger ledger(3, 10);
  for (int m = 0; m < 3; ++m) ledger.Add(m, Ask("x"), 0);
  auto ready = ledger.TakeReady();
  const uint64_t slot = ledger.SlotFor(ready[0]);
  ledger.Settle(ready[0], true);
  ledger.AddCached(0, slot, 0);
  ledger.Add(1, Ask("x", OpKind::kAllreduce, {5}), 0);
  ledger.AddCached(2, slot, 0);
  ready = ledger.TakeReady();
  ASSERT_EQ(ready[0]->dissent.size(), 1u);
  EXPECT_EQ(ready[0]->dissent[0].first, 1);
  ledger.Settle(ready[0], false);
  // What the slot remembers is untouched.
  for (int m = 0; m < 3; ++m) EXPECT_TRUE(ledger.AddCached(m, slot, 0));
  ready = ledger.TakeReady();
  EXPECT_TRUE(ready[0]->dissent.empty());
  EXPECT_EQ(ready[0]->agreed->request.shape, (Shape{4}));
}

TEST(Ledger, a_group_is_ready_as_a_whole) {
  Ledger ledger(2, 10);
  const auto grouped = [](const std::string& name) {
    Request r = Ask(name);
    r.group = 5;
    r.group_size = 3;
    return r;
  };
  for (int m = 0; m < 2; ++m) {
    ledger.Add(m, grouped("a"), 0);
    ledger.Add(m, Ask("alone"), 0);
    ledger.Add(m, grouped("b"), 0);
  }
  EXPECT_EQ(Names(ledger.TakeReady()), (List{"alone"}));
  ledger.Add(0, grouped("c"), 0);
  EXPECT_TRUE(ledger.TakeReady().empty());
  ledger.Add(1, grouped("c"), 0);
  EXPECT_EQ(Names(ledger.TakeReady()), (List{"a", "b", "c"}));
}

TEST(Ledger, a_group_of_other_numbers_of_tensors_is_torn_once_all_have_asked_for_theirs) {
  Ledger ledger(3, 10);
  const auto ask = [&](int member, int number, uint32_t of) {
    Request r = Ask("g_" + std::to_string(number) + "of" + std::to_string(of));
    r.group = 5;
    r.group_size = of;
    ledger.Add(member, r, 0);
  };
  const auto found = [&] {
    ledger.FindTornGroups();
    return Names(ledger.TakeReady());
  };
  ledger.Add(0, Ask("bystander"), 0);
  for (int number : {1, 2}) ask(0, number, 2);
  for (int number : {1, 2}) ask(2, number, 2);
  EXPECT_TRUE(found().empty()) << "member 1 may still come with two";
  for (int number : {1, 2}) ask(1, number, 3);
  EXPECT_TRUE(found().empty()) << "member 1 has not said all";
  ask(1, 3, 3);
  ledger.FindTornGroups();
  const std::vector<Tally*> torn = ledger.TakeReady();
  List names = Names(torn);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (List{"g_1of2", "g_1of3", "g_2of2", "g_2of3", "g_3of3"}));
  for (Tally* tally : torn) {
    EXPECT_EQ(tally->dissent.size(), tally->agreed->request.group_size == 2 ? 1u : 2u);
    ledger.Settle(tally, false);
  }
  EXPECT_EQ(ledger.pending().size(), 1u) << "the bystander waits on";
  // The names are free again.
  for (int m = 0; m < 3; ++m) {
    for (int number : {1, 2}) ask(m, number, 2);
  }
  EXPECT_EQ(found(), (List{"g_1of2", "g_2of2"}));
}

Request AskList(const std::vector<Shape>& shapes) {
  Request list = Ask("g");
  list.group = 5;
  for (const Shape& shape : shapes) AddToList(shape.data(), shape.size(), &list);
  list.shape = {ElementsOf(list)};
  return list;
}

TEST(Ledger, a_list_is_one_operation_with_one_slot) {
  Ledger ledger(2, 10);
  const Request list = AskList({{4}, {2, 2}});
  for (int m : {0, 1}) EXPECT_TRUE(ledger.Add(m, list, 0));
  const auto ready = ledger.TakeReady();
  ASSERT_EQ(Names(ready), List{"g"});
  const uint64_t slot = ledger.SlotFor(ready[0]);
  ledger.Settle(ready[0], true);
  EXPECT_EQ(ledger.remembered(), 1u);
  for (int m : {1, 0}) EXPECT_TRUE(ledger.AddCached(m, slot, 0));
  EXPECT_EQ(Names(ledger.TakeReady()), List{"g"});
}

TEST(Ledger, a_group_is_counted_singly_where_another_member_asks_so) {
  for (const bool by_slot : {false, true}) {
    Ledger ledger(3, 10);
    const Request list = AskList({{4}, {2, 2}});
    uint64_t slot = kNoSlot;
    if (by_slot) {
      for (int m : {0, 1, 2}) EXPECT_TRUE(ledger.Add(m, list, 0));
      Tally* const tally = ledger.TakeReady()[0];
      slot = ledger.SlotFor(tally);
      ledger.Settle(tally, true);
    }
    const auto ask = [&](int m) {
      EXPECT_TRUE(by_slot ? ledger.AddCached(m, slot, 0) : ledger.Add(m, list, 0));
    };
    ledger.Add(0, Ask("bystander"), 0);
    ask(0);
    // Member 1 asks for the same, but singly; one of its tensors could have another dtype.
    for (size_t i : {0, 1}) EXPECT_TRUE(ledger.Add(1, InList(list, i), 0));
    ledger.FindTornGroups();
    EXPECT_TRUE(ledger.TakeReady().empty()) << "member 2 has not asked";
    ask(2);
    ledger.FindTornGroups();
    const auto ready = ledger.TakeReady();
    EXPECT_EQ(Names(ready), (List{"g_1of2", "g_2of2"}));
    for (Tally* tally : ready) {
      EXPECT_EQ(tally->present, 3);
      ledger.Settle(tally, false);
    }
    EXPECT_EQ(ledger.pending().size(), 1u) << "the bystander waits on";
    // The group can be asked for again, and is whole.
    for (int m : {2, 1, 0}) ask(m);
    EXPECT_EQ(Names(ledger.TakeReady()), List{"g"});
  }
}

// A list of tensors with names of their own.
Request AskFor(const std::vector<std::string>& names) {
  Request list = Ask("list");
  for (const std::string& name : names) {
    list.name += "/" + name;
    const int64_t four = 4;
    AddToList(&four, 1, &list);
  }
  list.names = std::make_shared<const std::vector<std::string>>(names);
  list.shape = {ElementsOf(list)};
  return list;
}

// What members ask for in a round, by slot if they have asked so before.
class Asking {
 public:
  explicit Asking(int members) : ledger(members, 10000) {}
  void operator()(int member, const Request& request) {
    const auto slot = slots_.find(request.name);
    EXPECT_TRUE(slot == slots_.end() ? ledger.Add(member, request, 0)
                                     : ledger.AddCached(member, slot->second, 0));
  }
  List Ready() {
    List names;
    for (Tally* tally : ledger.TakeReady()) {
      names.push_back(tally->agreed->request.name);
      slots_[names.back()] = ledger.SlotFor(tally);
      ledger.Settle(tally, true);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  Ledger ledger;

 private:
  std::map<std::string, uint64_t> slots_;
};

TEST(Ledger, a_list_meets_other_lists_and_single_requests_for_its_tensors) {
  Asking ask(3);
  const Request abc = AskFor({"a", "b", "c"}), ab = AskFor({"a", "b"}), cd = AskFor({"c", "d"});
  for (int round = 0; round < 3; ++round) {
    for (int m : {0, 1, 2}) ask(m, abc);
    EXPECT_EQ(ask.Ready(), List{abc.name});
    EXPECT_EQ(ask.ledger.unlisted(), static_cast<uint64_t>(7 * round));
    // A list before single requests, and after them.
    ask(0, abc);
    ask(1, Ask("b"));
    EXPECT_EQ(ask.ledger.unlisted(), static_cast<uint64_t>(7 * round + 1));
    ask(2, abc);
    EXPECT_EQ(ask.Ready(), List{"b"});
    ask(1, Ask("c"));
    ask(1, Ask("a"));
    EXPECT_EQ(ask.Ready(), (List{"a", "c"}));
    // Lists that overlap.
    ask(0, abc);
    ask(0, Ask("d"));
    ask(1, cd);
    ask(1, ab);
    ask(2, ab);
    EXPECT_EQ(ask.Ready(), (List{"a", "b"}));
    ask(2, cd);
    EXPECT_EQ(ask.Ready(), (List{"c", "d"}));
    EXPECT_TRUE(ask.ledger.pending().empty());
    EXPECT_EQ(ask.ledger.unlisted(), static_cast<uint64_t>(7 * round + 7));
  }
}

TEST(Ledger, lists_in_any_pieces_always_make_all_tensors_ready) {
  std::mt19937 random(7);
  for (int job = 0; job < 200; ++job) {
    const int members = 1 + static_cast<int>(random() % 4);
    Asking ask(members);
    for (int round = 0; round < 12; ++round) {
      // Each member cuts the names a to h into lists and singles, and asks in an order of its own.
      std::vector<std::pair<int, Request>> all;
      for (int m = 0; m < members; ++m) {
        std::vector<std::string> piece;
        const unsigned style = random() % 3;
        for (char c = 'a'; c <= 'h'; ++c) {
          piece.push_back(std::string(1, c));
          const bool cut = style == 0 ? c == 'd' : random() % 3 == 0;
          if (!cut && c != 'h') continue;
          if (piece.size() == 1 && random() % 2 == 0) {
            all.emplace_back(m, Ask(piece[0]));
          } else {
            all.emplace_back(m, AskFor(piece));
          }
          piece.clear();
        }
      }
      std::shuffle(all.begin(), all.end(), random);
      std::string seen;
      const auto collect = [&] {
        for (const std::string& name : ask.Ready()) {
          for (size_t i = name.find('/'); i != std::string::npos; i = name.find('/', i + 1))
            seen += name[i + 1];
          if (name.find('/') == std::string::npos) seen += name;
        }
      };
      for (const auto& [m, request] : all) {
        ask(m, request);
        if (random() % 2 == 0) collect();
      }
      collect();
      std::sort(seen.begin(), seen.end());
      ASSERT_EQ(seen, "abcdefgh") << "job " << job << ", round " << round;
      ASSERT_TRUE(ask.ledger.pending().empty());
    }
  }
}

TEST(Ledger, a_member_that_joined_counts_everywhere) {
  Ledger ledger(3, 10);
  ledger.Add(0, Ask("before"), 0);
  ledger.Add(1, Ask("before"), 0);
  EXPECT_TRUE(ledger.Add(2, Ask("join", OpKind::kJoin), 0));
  auto ready = ledger.TakeReady();
  EXPECT_EQ(Names(ready), (List{"before"}));
  EXPECT_EQ(ready[0]->presence[2], Presence::kJoined);
  ledger.Settle(ready[0], true);
  ledger.Add(1, Ask("after"), 0);
  ledger.Add(0, Ask("after"), 0);
  EXPECT_EQ(Names(ledger.TakeReady()), (List{"after"}));
  EXPECT_EQ(ledger.TakeLastJoined(), -1);
  ledger.Add(0, Ask("join", OpKind::kJoin), 0);
  ledger.Add(1, Ask("join", OpKind::kJoin), 0);
  EXPECT_EQ(ledger.TakeLastJoined(), 1);
  EXPECT_EQ(ledger.TakeLastJoined(), -1);
  EXPECT_FALSE(ledger.joined(2));
}

TEST(Ledger, the_least_recently_used_slots_go_first_and_are_known_until_all_have_forgotten_them) {
  Ledger ledger(2, 3);
  std::vector<uint64_t> slots;
  const auto round = [&](const std::string& name) {
    ledger.Add(0, Ask(name), 0);
    ledger.Add(1, Ask(name), 0);
    for (Tally* tally : ledger.TakeReady()) {
      slots.push_back(ledger.SlotFor(tally));
      ledger.Settle(tally, true);
    }
  };
  for (const char* name : {"a", "b", "c"}) round(name);
  EXPECT_TRUE(ledger.TakeEvictions().empty());
  round("a");  // used again; by name in full, but that is its slot
  EXPECT_EQ(slots[3], slots[0]);
  round("d");
  EXPECT_EQ(ledger.TakeEvictions(), (std::vector<uint64_t>{slots[1]}));
  EXPECT_EQ(ledger.remembered(), 3u);
  // Member 1 had announced it before it heard.
  EXPECT_TRUE(ledger.AddCached(1, slots[1], 0));
  ledger.Forgotten(slots[1]);
  ledger.Forgotten(slots[1]);
  EXPECT_FALSE(ledger.AddCached(0, slots[1], 0)) << "nobody may know it any more";
  EXPECT_TRUE(ledger.Add(0, Ask("b"), 0));
  EXPECT_EQ(Names(ledger.TakeReady()), (List{"b"}));
}

TEST(Ledger, a_slot_in_use_is_not_evicted) {
  Ledger ledger(2, 1);
  const auto full = [&](const std::string& name) {
    ledger.Add(0, Ask(name), 0);
    ledger.Add(1, Ask(name), 0);
    Tally* tally = ledger.TakeReady().at(0);
    const uint64_t slot = ledger.SlotFor(tally);
    ledger.Settle(tally, true);
    return slot;
  };
  const uint64_t a = full("a");
  ledger.AddCached(0, a, 0);  // asked by one
  const uint64_t b = full("b");
  EXPECT_EQ(ledger.TakeEvictions(), (std::vector<uint64_t>{b}));
  EXPECT_TRUE(ledger.AddCached(1, a, 0));
  EXPECT_EQ(Names(ledger.TakeReady()), (List{"a"}));
}

TEST(Ledger, without_a_cache_nothing_is_remembered) {
  Ledger ledger(1, 0);
  for (int i = 0; i < 100; ++i) {
    ledger.Add(0, Ask("x" + std::to_string(i)), 0);
    Tally* tally = ledger.TakeReady().at(0);
    EXPECT_EQ(ledger.SlotFor(tally), kNoSlot);
    ledger.Settle(tally, false);
  }
  EXPECT_EQ(ledger.remembered(), 0u);
}

TEST(Ledger, it_knows_for_whom_the_others_waited) {
  Ledger ledger(2, 10);
  ledger.Add(0, Ask("a"), 100);
  ledger.Add(1, Ask("a"), 350);
  ledger.Add(0, Ask("b"), 200);
  ledger.Add(1, Ask("b"), 400);  // of these 200, 150 have been counted
  ledger.Add(1, Ask("c"), 500);
  ledger.Add(0, Ask("c"), 510);
  EXPECT_EQ(ledger.waited_for()[0].covered(), 10);
  EXPECT_EQ(ledger.waited_for()[1].covered(), 300);
}

}  // namespace
}  // namespace hvdlite::engine
