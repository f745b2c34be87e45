#include "engine/message.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/list.h"
#include "testing/says.h"

namespace hvdlite::engine {
namespace {

Request Random(std::mt19937* random) {
  const auto pick = [&](uint32_t n) { return (*random)() % n; };
  Request r;
  r.kind = static_cast<OpKind>(pick(kOpKindCount));
  r.dtype = static_cast<DType>(pick(kDTypeCount));
  r.op = static_cast<ReduceOp>(pick(kReduceOpCount));
  r.device = static_cast<DeviceKind>(pick(2));
  r.cacheable = pick(2) == 0;
  if (pick(2)) r.root = static_cast<int64_t>(pick(1000));
  if (pick(2)) r.prescale = 1.0 / (1 + pick(100));
  if (pick(2)) r.postscale = -0.0;
  if (pick(2)) {
    r.group = static_cast<uint64_t>(pick(UINT32_MAX)) << 32 | 1;
    r.group_size = pick(1000);
  }
  if (pick(4) == 0) {
    r.kind = OpKind::kAllreduce;
    r.dtype = DType::kFloat32;
    r.device = DeviceKind::kHost;
    r.op = pick(2) == 0 ? ReduceOp::kSum : ReduceOp::kAverage;
    r.codec = {static_cast<Codec>(1 + pick(kCodecCount - 1)), 0};
    r.codec.parameter = Of(r.codec.codec).least;
  } else if (pick(8) == 0) {
    r = Request();
    r.shape = {static_cast<int64_t>(1 + pick(70))};
    r.taken = 1 + pick(static_cast<uint32_t>(r.shape[0]));
    r.name = std::string(pick(300), static_cast<char>('a' + pick(26)));
    return r;
  }
  if (pick(4) == 0 && !r.codec.encodes()) {
    r.kind = OpKind::kAllreduce;
    r.op = ReduceOp::kMax;
    r.group = 7;
    r.group_size = 0;
    for (auto left = 1 + pick(20); left > 0; --left) {
      Shape shape;
      for (const uint32_t most : {9, 3, 300}) shape.push_back(static_cast<int64_t>(pick(most)));
      AddToList(shape.data(), pick(4), &r);
    }
    r.shape = {ElementsOf(r)};
    if (pick(2)) {
      std::vector<std::string> names;
      for (uint32_t i = 0; i < r.group_size; ++i) names.emplace_back(pick(20), 'n');
      r.names = std::make_shared<const std::vector<std::string>>(names);
      r.group = 0;
    }
    r.name = std::string(pick(300), static_cast<char>('a' + pick(26)));
    return r;
  }
  for (uint32_t i = 0; i < pick(6); ++i) r.shape.push_back(pick(70));
  for (uint32_t i = 0; i < pick(6); ++i) r.splits.push_back(pick(1u << 30));
  r.name = std::string(pick(300), static_cast<char>('a' + pick(26)));
  return r;
}

TEST(Message, requests_come_back_as_they_were) {
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    const Request sent = Random(&random);
    Writer out;
    sent.Encode(&out);
    Reader in(out.bytes());
    Request got = Random(&random);  // whatever was there before is overwritten
    ASSERT_TRUE(Request::Decode(&in, &got));
    ASSERT_TRUE(in.done());
    ASSERT_TRUE(got.SameExceptName(sent));
    ASSERT_EQ(got.name, sent.name);
    ASSERT_EQ(std::signbit(got.postscale), std::signbit(sent.postscale));
    // Cut anywhere, it is refused.
    for (int cut = 0; cut < 4; ++cut) {
      Reader part(std::string_view(out.bytes()).substr(0, random() % out.bytes().size()));
      ASSERT_FALSE(Request::Decode(&part, &got) && part.ok());
    }
  }
}

bool Decodes(const Request& request) {
  Writer out;
  request.Encode(&out);
  Reader in(out.bytes());
  Request got;
  return Request::Decode(&in, &got);
}

TEST(Message, a_codec_that_cannot_encode_the_request_is_refused) {
  Request good;
  good.codec = {Codec::kTernary, 2.5};
  ASSERT_TRUE(Decodes(good));
  Request on_gpu = good;
  on_gpu.device = DeviceKind::kCuda;
  ASSERT_TRUE(Decodes(on_gpu));
  for (const auto& change : std::vector<void (*)(Request*)>{
           [](Request* r) { r->kind = OpKind::kReducescatter; },
           [](Request* r) { r->dtype = DType::kFloat64; },
           [](Request* r) { r->op = ReduceOp::kMax; },
           [](Request* r) { r->codec.parameter = -1; },
           [](Request* r) { r->codec.codec = static_cast<Codec>(kCodecCount); },
       }) {
    Request bad = good;
    change(&bad);
    EXPECT_FALSE(Decodes(bad));
  }
}

TEST(Message, a_list_that_is_none_is_refused) {
  Request good;
  good.group = 7;
  for (const Shape& shape : {Shape{3, 4}, Shape{}, Shape{0}})
    AddToList(shape.data(), shape.size(), &good);
  good.shape = {13};
  ASSERT_TRUE(Decodes(good));
  for (const auto& change : std::vector<void (*)(Request*)>{
           [](Request* r) { r->kind = OpKind::kBroadcast; },
           [](Request* r) { r->op = ReduceOp::kAdasum; },
           [](Request* r) { r->codec = {Codec::kTernary, 2.5}; },
           [](Request* r) { r->taken = 1; },
           [](Request* r) { r->group_size = 2; },
           [](Request* r) { r->group_size = 4; },
           [](Request* r) { r->shapes[0] = 3; },  // the next tensor's number becomes a dimension
           [](Request* r) { r->shapes[0] = -1; },
           [](Request* r) { r->shapes[0] = 1000; },
           [](Request* r) { r->shapes[1] = -3; },
           [](Request* r) { r->shapes.back() = kMaxElements + 1; },
           [](Request* r) { r->shapes[1] = kMaxElements / 4, r->shapes.back() = 1; },
       }) {
    Request bad = good;
    change(&bad);
    EXPECT_FALSE(Decodes(bad));
  }
}

TEST(Message, a_request_that_cannot_be_sparse_is_refused) {
  Request good;
  good.shape = {10};
  good.taken = 10;
  ASSERT_TRUE(Decodes(good));
  for (const auto& change : std::vector<void (*)(Request*)>{
           [](Request* r) { r->kind = OpKind::kReducescatter; },
           [](Request* r) { r->dtype = DType::kFloat64; },
           [](Request* r) { r->op = ReduceOp::kMax; },
           [](Request* r) { r->device = DeviceKind::kCuda; },
           [](Request* r) { r->codec = {Codec::kTernary, 2.5}; },
           [](Request* r) { r->taken = 11; },
           [](Request* r) { r->shape = {int64_t{1} << 31}; },
       }) {
    Request bad = good;
    change(&bad);
    EXPECT_FALSE(Decodes(bad));
  }
}

TEST(Message, responses_come_back_as_they_were) {
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    Agreed agreed;
    agreed.request = Random(&random);
    Response sent;
    sent.cached = random() % 2 == 0;
    sent.slot = sent.cached ? 1 + random() : random() % 3;
    for (uint32_t r = 0; r < random() % 9; ++r) agreed.rows.push_back(random() % 300);
    sent.agreed = std::make_shared<const Agreed>(agreed);
    Writer out;
    Encode(sent, &out);
    Reader in(out.bytes());
    Response got;
    ASSERT_TRUE(Decode(&in, &got));
    ASSERT_TRUE(in.done());
    ASSERT_EQ(got.cached, sent.cached);
    ASSERT_EQ(got.slot, sent.slot);
    if (sent.cached) continue;
    ASSERT_TRUE(got.agreed->request.SameExceptName(agreed.request));
    ASSERT_EQ(got.agreed->rows, agreed.rows);
  }
}

TEST(Message, statuses_come_back_as_they_were) {
  for (uint8_t code = 1; code <= static_cast<uint8_t>(StatusCode::kInternal); ++code) {
    Writer out;
    Encode(Status(static_cast<StatusCode>(code), "text", code - 2), &out);
    Reader in(out.bytes());
    Status got;
    ASSERT_TRUE(Decode(&in, &got));
    EXPECT_EQ(got.code(), static_cast<StatusCode>(code));
    EXPECT_EQ(got.peer(), code - 2);
    EXPECT_EQ(got.message(), "text");
  }
}

TEST(Message, the_cause_of_a_loss_and_the_ranks_concerned_come_back) {
  for (uint8_t cause = 0; cause < kCauseCount; ++cause) {
    for (const std::vector<int>& ranks :
         {std::vector<int>{}, {3}, {3, 70'000}, std::vector<int>(Status::kMostRanks + 9, 5)}) {
      const Status sent = Status::PeerLost(static_cast<Cause>(cause), ranks, "text");
      EXPECT_LE(sent.ranks().size(), Status::kMostRanks);
      Writer out;
      Encode(sent, &out);
      Reader in(out.bytes());
      Status got;
      ASSERT_TRUE(Decode(&in, &got) && in.done());
      EXPECT_TRUE(IsLossBy(sent.cause(), sent.ranks(), got));
    }
  }
}

TEST(Message, a_status_that_no_rank_of_ours_would_send_is_refused) {
  const auto refused = [](uint8_t code, uint8_t cause, std::vector<int64_t> ranks) {
    Writer out;
    out.U8(code);
    out.U8(cause);
    out.List(ranks);
    out.Text("text");
    Reader in(out.bytes());
    Status got;
    return !Decode(&in, &got);
  };
  EXPECT_FALSE(refused(4, 1, {0}));
  EXPECT_TRUE(refused(0, 1, {0}));
  EXPECT_TRUE(refused(kStatusCodeCount, 1, {0}));
  EXPECT_TRUE(refused(4, kCauseCount, {0}));
  EXPECT_TRUE(refused(4, 1, {-1}));
  EXPECT_TRUE(refused(4, 1, {int64_t{1} << 31}));
  EXPECT_TRUE(refused(4, 1, std::vector<int64_t>(Status::kMostRanks + 1)));
}

TEST(Message, what_no_rank_of_ours_would_send_is_refused) {
  const auto refused = [](const std::function<void(Request*)>& change) {
    Request r;
    r.name = "x";
    r.shape = {2, 3};
    change(&r);
    Writer out;
    r.Encode(&out);
    Reader in(out.bytes());
    Request got;
    return !Request::Decode(&in, &got);
  };
  EXPECT_FALSE(refused([](Request*) {}));
  EXPECT_TRUE(refused([](Request* r) { r->shape = {-1}; }));
  EXPECT_TRUE(refused([](Request* r) { r->shape.assign(65, 1); }));
  EXPECT_TRUE(refused([](Request* r) { r->shape = {INT64_MAX, 4}; })) << "overflows";
  EXPECT_TRUE(refused([](Request* r) { r->shape = {0, INT64_MAX, INT64_MAX}; }))
      << "overflows on the way";
  EXPECT_TRUE(refused([](Request* r) { r->splits = {1, -1}; }));
  EXPECT_TRUE(refused([](Request* r) { r->splits = {INT64_MAX}; }));
  EXPECT_TRUE(refused([](Request* r) { r->kind = static_cast<OpKind>(200); }));
  EXPECT_TRUE(refused([](Request* r) { r->dtype = static_cast<DType>(kDTypeCount); }));
  EXPECT_TRUE(refused([](Request* r) { r->op = static_cast<ReduceOp>(kReduceOpCount); }));

  Response response;
  Agreed negative;
  negative.request.name = "x";
  negative.rows = {3, -1};
  response.agreed = std::make_shared<const Agreed>(negative);
  Writer out;
  Encode(response, &out);
  Reader in(out.bytes());
  EXPECT_FALSE(Decode(&in, &response)) << "negative rows";
  Writer nothing;
  nothing.Varint(1);  // "cached", without a slot
  Reader cached(nothing.bytes());
  EXPECT_FALSE(Decode(&cached, &response));
}

TEST(Message, names_are_shown_without_their_operation) {
  Request r;
  r.name = "allreduce.conv1/weight";
  EXPECT_EQ(Shown(r), "allreduce 'conv1/weight'");
  r.name = "grouped_allreduce.g_1of2";
  EXPECT_EQ(Shown(r), "allreduce 'g_1of2'");
  r.name = "plain";
  EXPECT_EQ(Shown(r), "allreduce 'plain'");
}

}  // namespace
}  // namespace hvdlite::engine
