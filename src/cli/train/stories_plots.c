#include "cli/train/stories_plots.h"

const ig_story_name ig_story_names[IG_STORY_NAMES] = {
    {"Mia", true},   {"Ben", false},  {"Lily", true},   {"Tom", false}, {"Nora", true},
    {"Max", false},  {"Ruby", true},  {"Oscar", false}, {"Ella", true}, {"Finn", false},
    {"Rosie", true}, {"Sam", false},  {"Clara", true},  {"Leo", false}, {"Daisy", true},
    {"Jack", false}, {"Anna", true},  {"Toby", false},  {"Lucy", true}, {"Hugo", false},
    {"Ivy", true},   {"Otto", false}, {"Poppy", true},  {"Gus", false},
};

const char *const ig_story_places[IG_STORY_PLACES] = {
    "by the river",    "in the forest",           "on the hill",    "near the garden",
    "by the pond",     "in the meadow",           "near the beach", "behind the barn",
    "in the village",  "near the bridge",         "by the mill",    "beside the lake",
    "near the market", "at the edge of the town",
};

const ig_story_thing ig_story_things[IG_STORY_THINGS] = {
    {"kite", "tore"},   {"drum", "broke"},   {"hat", "tore"},   {"bell", "broke"},
    {"boat", "broke"},  {"lamp", "broke"},   {"scarf", "tore"}, {"basket", "broke"},
    {"flute", "broke"}, {"book", "tore"},    {"coat", "tore"},  {"cup", "broke"},
    {"doll", "broke"},  {"puppet", "broke"}, {"cart", "broke"}, {"clock", "broke"},
};

const ig_story_phrase ig_story_phrases[] = {
    {"trait", "small|little|kind|brave|shy|young|clever|funny|cheerful|quiet|curious|busy|gentle"},
    {"animal", "mouse|rabbit|fox|bear|duck|frog|cat|dog|squirrel|turtle|pig|goat|lamb|pony"},
    {"color", "red|blue|green|yellow|white|little|old|new|shiny|pretty|fine|lovely"},
    {"athing", "{a} {color} {thing}"},
    {"bake", "cake|pie|pudding|tart"},
    {"skill", "swim|read|whistle|dance|climb|paint|skate|sing"},
    {"load", "box|sack|barrel|basket of stones"},
    {"woman", "friend|best friend|neighbor|cousin|sister"},
    {"man", "friend|best friend|neighbor|cousin|brother"},

    {"day", "one day|one morning|one afternoon|one sunny day|one windy morning|on a cold day|"
            "one warm evening|early one morning|late one afternoon|one rainy day"},

    /* Openings: who, and where. "who" continues in the same sentence. */
    {"open", "{who}.|{hero} the {species} lived {at}.|"
             "In a [small|little|tiny|cozy] house {at} lived a {trait} {species} named {hero}.|"
             "A {trait} {species} named {hero} lived {at} with {his} [mother|father|family]."},
    {"who", "{hero} was a {trait} {species} who lived {at}|"
            "Once there was a {trait} {species} named {hero} who lived {at}|"
            "Once upon a time, a {trait} {species} named {hero} lived {at}|"
            "There once was a {species} named {hero} who lived {at}"},

    /* Hiding places. */
    {"hidden", "under a bush|behind a big stone|in the tall grass|on top of a wall|"
               "inside an old boot|under a pile of leaves|behind the fence|in a hollow tree"},
    {"searched", "under the bed and behind the door|in every box and under the table|"
                 "in the kitchen and in the garden|everywhere in the house"},

    /* Endings. */
    {"joy", "{hero} [laughed|smiled|cheered] and hugged {friend}.|"
            "\"Thank you[| so much], {friend}!\" [said|cried] {hero}.|"
            "{hero} was so happy that {he} [danced|sang|jumped up and down|hugged {friend}]."},
    {"end", "They [walked|went|ran] home [together|side by side|singing].|"
            "From that day on, they did everything together.|"
            "It was a [good|wonderful|lovely|happy] day.|{hero} never forgot that day.|"
            "That night, {hero} [slept very well|had happy dreams|fell asleep with a smile].|"
            "And they both laughed."},
    {"maybe", "| {end}"}, /* follows a sentence directly */
    {NULL, NULL},
};

const char *const ig_story_plots[IG_STORY_PLOTS] = {
    /* Something is lost. */
    "{who} and had {athing}. {Day}, the {thing} was gone. {hero} looked {searched}, but it was not "
    "there. \"[Do not cry|Do not worry|Do not be sad], [I will help you look|we will find it],\" "
    "said {his} {kin} {friend}. [At last|Soon|After a long time], they found it {hidden}. {joy}",

    /* Something is found. */
    "{open} {Day}, {he} found {athing} {hidden}. {He} wanted to keep it, but {he} knew that "
    "[someone must miss it|it was not {his} own|this was not right]. So {he} carried it from door "
    "to door. \"That is my {thing}!\" cried {his} {kin} {friend}. \"I [looked everywhere for it|"
    "thought it was lost|have missed it so much]!\"{maybe}",

    /* Telling the truth. */
    "{who}. {Day}, {he} [sat on|fell over|stepped on] {athing} that belonged to {his} {kin} "
    "{friend}, and it {broke}. {hero} wanted to [run away|hide it|say nothing], but {he} told the "
    "truth. \"I am sorry, {friend},\" {he} said. \"[Thank you for telling me|It is only a {thing}|"
    "I am not angry],\" said {friend}. [Together they made it as good as new|They worked all "
    "afternoon until it was as good as new].",

    /* Sharing. */
    "{open} {Day}, {he} and {his} {kin} {friend} found {athing} {hidden}. \"It is mine!\" said "
    "{hero}. \"No, it is mine!\" said {friend}. They pulled and pulled until they both fell "
    "[down|into the mud|into the grass]. Then they laughed and [took turns with the {thing}|"
    "shared the {thing}|played with it together].",

    /* Fear. */
    "{who}. {He} was afraid of [the dark, and one night the candle went out|thunder, and one "
    "evening a big storm came|the wind, and one night it howled around the house]. \"[I am scared|"
    "Please stay with me],\" {he} whispered. {His} {kin} {friend} sat down beside {him} and gave "
    "{him} {athing} to hold. [Slowly|Little by little], {hero} stopped shaking. [In the morning, "
    "{he} was not afraid any more.|And soon {he} was asleep.]",

    /* Rain. */
    "{open} {Day}, {he} was playing outside with {his} {kin} {friend} when it began to rain. They "
    "ran and hid under [a big tree|an old roof|a cart]. {friend} opened {fhis} bag and took out "
    "{athing}. \"[Let us play until the rain stops|Look what I have],\" {fhe} said. They [told "
    "stories|sang songs|played games] with the {thing} until [the sun came out|a rainbow stood in "
    "the sky].",

    /* A gift. */
    "{who}. It was the birthday of {his} {kin} {friend}, but {hero} had no [money|gift]. So {he} "
    "made a {thing} [out of wood and string|from old things|with {his} own hands] and painted it "
    "[red|blue|green|yellow]. \"You made this for me?\" asked {friend}. \"It is the best gift [of "
    "all|in the world]!\"{maybe}",

    /* A race. */
    "{open} \"Let us race to the [big tree|old well|top of the hill]!\" said {his} {kin} {friend} "
    "{day}. \"The winner gets my {thing}.\" {hero} ran as fast as {he} could, but then {he} saw a "
    "[little bird|small bee|baby duck] that [was stuck in the mud|was hurt|was lost], and {he} "
    "stopped to help. {friend} won the race. \"You have a kind heart,\" {fhe} said, and gave "
    "{hero} the {thing}.",

    /* A rescue. */
    "{who}. {Day}, {he} heard a cry for help. {His} {kin} {friend} was stuck in [the mud|a deep "
    "hole|an old well]. {hero} ran home, got a long rope and pulled with all {his} might. \"You "
    "saved me!\" said {friend}, and gave {him} {athing}.{maybe}",

    /* Baking. */
    "{open} {Day}, {he} baked a {bake} for {his} {kin} {friend}, but {he} [forgot the sugar|left "
    "it "
    "in the oven too long|used salt and no sugar]. {friend} took one bite and laughed. \"[We all "
    "make mistakes|Next time will be better|I like it anyway],\" {fhe} said. \"Look, I have "
    "{athing} for you. Now let us bake another {bake}!\"",

    /* Snow. */
    "{who}. One winter morning, everything was white, and {he} made a big snowman with {his} {kin} "
    "{friend}. It had [two stones for eyes|a carrot for a nose|sticks for arms]. \"[Something is "
    "missing|He looks cold|He needs one more thing],\" said {friend}. {hero} ran inside and came "
    "back with {athing}. Now the snowman [looked wonderful|seemed to smile].",

    /* A treasure. */
    "{open} {Day}, {he} found an old map [in a book|under the floor|in a bottle] and showed it to "
    "{his} {kin} {friend}. They followed it [through the trees|across the stream|over the fields] "
    "and dug a deep hole. There was a box, and in the box was {athing}. \"It is not gold,\" said "
    "{friend}, \"but it was a great [adventure|day].\"",

    /* A new neighbor. */
    "{who}. {Day}, a [shy|quiet] child named {friend} moved into the house next door. {friend} had "
    "no friends and sat alone [on the steps|under a tree|at the window]. {hero} took {athing} and "
    "went to {fhim}. \"[Would you like to play|Do you want to be my friend|May I sit with you]?\" "
    "{he} asked. \"Yes, please!\" said {friend}.{maybe}",

    /* A sound in the night. */
    "{open} One night, {he} heard a strange sound [outside|in the kitchen|on the roof]. {hero} "
    "took a candle and went to look. It was not a [ghost|monster|thief]. It was only {his} {kin} "
    "{friend}, who was looking for {fhis} {color} {thing}. They laughed and drank warm milk [in "
    "the "
    "moonlight|by the fire|in the kitchen].",

    /* A wish. */
    "{who} and wanted a {thing} more than anything. One clear night, {he} saw a bright star and "
    "made a wish. In the morning, there was a knock at the door. It was {his} {kin} {friend} with "
    "{athing} in {fhis} arms. \"I [do not need this any more|made this for you|have two of "
    "these],\" "
    "{fhe} said. {joy}",

    /* Learning. */
    "{open} {He} could not {skill}, and that made {him} sad. \"I will teach you,\" said {his} "
    "{kin} "
    "{friend}. [At first, it was very hard|It took a long time], but {hero} did not give up. After "
    "a week, {he} could {skill} [very well|better than anyone]. To say thank you, {he} gave "
    "{friend} {athing}.",

    /* The market. */
    "{who}. {He} had saved three coins to buy {athing}. On the way, {he} met {his} {kin} {friend}, "
    "who was [hungry|cold and hungry|tired and hungry]. {hero} looked at {his} coins and bought "
    "[bread and cheese|two warm pies|soup and bread] for both of them. The next day, {friend} came "
    "with a [box|bag] in {fhis} arms. In it was the very {thing} that {hero} had wanted.",

    /* A thief. */
    "{open} {Day}, a [naughty goat|hungry goat|wild pony] took {his} {color} {thing} and ran away. "
    "\"Stop! That is my {thing}!\" cried {hero}. {His} {kin} {friend} held out [a carrot|an apple|"
    "some bread]. The [animal|thief] dropped the {thing} and came to eat. \"[Now we are all happy|"
    "It was only hungry],\" said {friend}.{maybe}",

    /* In bed. */
    "{who}. {His} {kin} {friend} was sick and had to stay in bed. {hero} brought {fhim} [hot soup|"
    "warm milk|tea with honey] and {athing}. \"[You are so kind|I feel better already],\" said "
    "{friend}. The next morning, {fhe} was [well|strong] again. \"The {thing} helped me,\" {fhe} "
    "said, \"but you helped me more.\"",

    /* In the water. */
    "{open} {Day}, {he} dropped {his} {color} {thing} into the water. \"Oh no!\" cried {hero}, and "
    "ran after it with {his} {kin} {friend}. [At the old tree|Under the bridge|Near the rocks], "
    "{friend} caught the {thing} with a [stick|net|branch]. It was wet, but it was not broken. "
    "They sat in the sun until everything was dry.",

    /* Patience. */
    "{who}. {Day}, {he} gave away {athing} for a bag of seeds. \"You gave a {thing} for that?\" "
    "laughed {his} {kin} {friend}. {hero} planted the seeds and watered them every day. In the "
    "fall, the garden was full of [pumpkins|sunflowers|sweet corn|red beans]. \"You were right,\" "
    "said {friend}. \"[Good things take time|Next year I will help you].\"",

    /* On the stage. */
    "{open} There was a big show, and {hero} wanted to [sing|dance|tell a story]. But when {he} "
    "saw "
    "all the people, {he} [could not move|forgot everything|wanted to hide]. {His} {kin} {friend} "
    "waved {athing} in the air. \"You can do it!\" {fhe} shouted. {hero} laughed and began, and "
    "when it was over, everyone [clapped|cheered].",

    /* Help. */
    "{who}. {Day}, {he} tried to [push|pull] a heavy {load} up the hill. \"I can do it alone,\" "
    "{he} told {his} {kin} {friend}, but the {load} did not move. \"Now may I help you?\" asked "
    "{friend}. Together they were at the top very soon. {hero} took out {athing}. \"It is for "
    "you,\" {he} said. \"It was a surprise.\"",

    /* The small hero. */
    "{open} {Day}, {he} found a [baby bird|tiny kitten|little duck] {hidden}. It was [cold|wet] "
    "and "
    "cried for its mother. {His} {kin} {friend} made a warm bed for it [beside|behind] {athing}. "
    "In "
    "the morning, the mother came. \"[Look, there she is|Now it is home again|How happy they "
    "are]!\" "
    "whispered {hero}.{maybe}",
};
