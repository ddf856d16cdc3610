#include "datasets/qa/fact_words.h"

#include <array>

namespace kvscope {
namespace {

constexpr auto kPeople = std::to_array<std::string_view>({
    "Adam",  "Alice", "Anna",   "Brian",  "Carol", "Clara", "Daniel", "David", "Diana",  "Edward",
    "Emma",  "Eric",  "Frank",  "Grace",  "Helen", "Henry", "Jack",   "James", "Jane",   "Julia",
    "Karen", "Kevin", "Laura",  "Linda",  "Lucy",  "Mark",  "Martin", "Mary",  "Nancy",  "Oliver",
    "Paul",  "Peter", "Rachel", "Robert", "Ruth",  "Sarah", "Simon",  "Susan", "Thomas", "Walter",
});

constexpr auto kCities = std::to_array<std::string_view>({
    "Athens",  "Bangkok", "Berlin",  "Boston",  "Brussels", "Cairo",  "Chicago",  "Dallas",
    "Delhi",   "Denver",  "Dublin",  "Geneva",  "Glasgow",  "Havana", "Helsinki", "Houston",
    "Jakarta", "Kyoto",   "Lagos",   "Lima",    "Lisbon",   "London", "Madrid",   "Miami",
    "Milan",   "Moscow",  "Munich",  "Nairobi", "Naples",   "Oslo",   "Oxford",   "Paris",
    "Prague",  "Rome",    "Seattle", "Seoul",   "Sydney",   "Tokyo",  "Vienna",   "Warsaw",
});

constexpr auto kJobs = std::to_array<std::string_view>({
    "baker",    "barber",  "builder", "butcher",  "carpenter",  "chef",     "chemist",
    "clerk",    "dancer",  "dentist", "designer", "doctor",     "driver",   "farmer",
    "gardener", "guard",   "judge",   "lawyer",   "librarian",  "mechanic", "miner",
    "nurse",    "painter", "pilot",   "plumber",  "poet",       "printer",  "sailor",
    "singer",   "soldier", "tailor",  "teacher",  "translator", "waiter",   "writer",
});

constexpr auto kPets = std::to_array<std::string_view>({
    "beagle", "camel",  "canary", "cat",    "chicken", "cow",      "dog",    "donkey",
    "duck",   "ferret", "frog",   "goat",   "goose",   "hamster",  "horse",  "kitten",
    "lizard", "monkey", "mouse",  "parrot", "pig",     "pigeon",   "pony",   "puppy",
    "rabbit", "rat",    "sheep",  "snake",  "spider",  "tortoise", "turkey", "turtle",
});

constexpr auto kFiller = std::to_array<std::string_view>({
    "The grass is green.",    "The sky is blue.",       "The sun is warm.",
    "The road is long.",      "The night was calm.",    "The rain fell softly.",
    "The wind was cold.",     "The tea was hot.",       "The door stood open.",
    "The river runs slowly.", "The lamp is bright.",    "The hill is steep.",
    "The bread was fresh.",   "The leaves turned red.", "The clock struck nine.",
    "The water is deep.",     "The path was narrow.",   "The snow lay thick.",
    "The music was quiet.",   "The stones were wet.",   "The moon rose late.",
    "The soup was thin.",     "The walls are white.",   "The fire burned low.",
    "The window was closed.", "The air smelled sweet.", "The book is old.",
    "The chair was empty.",   "The bridge is wide.",    "The train came late.",
    "The sea was smooth.",    "The bell rang twice.",   "The field is flat.",
    "The stars were out.",    "The coat was heavy.",    "The box is small.",
    "The floor was clean.",   "The paint is dry.",      "The garden looked neat.",
    "The summer was short.",
});

}  // namespace

std::span<const std::string_view> person_names() { return kPeople; }
std::span<const std::string_view> city_names() { return kCities; }
std::span<const std::string_view> job_names() { return kJobs; }
std::span<const std::string_view> pet_names() { return kPets; }
std::span<const std::string_view> filler_sentences() { return kFiller; }

}  // namespace kvscope
