-- The museum's database: everything here is made up. museum.db is built from this file (python -m kogagent.demo.data).
CREATE TABLE expeditions (name TEXT PRIMARY KEY, leader TEXT, year INTEGER, days INTEGER, cost INTEGER);
INSERT INTO expeditions VALUES
  ('Kestrel', 'Ines Okafor', 2011, 41, 18400),
  ('Merlin', 'Tomas Vidal', 2014, 63, 36150),
  ('Osprey', 'Lena Marsh', 2017, 28, 22900),
  ('Heron', 'Samir Quist', 2021, 35, 15700);
CREATE TABLE fossils (name TEXT PRIMARY KEY, kind TEXT, expedition TEXT REFERENCES expeditions (name), mass INTEGER, room INTEGER);
INSERT INTO fossils VALUES
  ('Bramble', 'fish', 'Kestrel', 62, 2),
  ('Clover', 'shell', 'Kestrel', 3, 1),
  ('Dusty', 'bone', 'Kestrel', 27, 3),
  ('Ember', 'fern', 'Kestrel', 8, 4),
  ('Flint', 'shell', 'Kestrel', 5, 1),
  ('Garnet', 'bone', 'Merlin', 118, 3),
  ('Hazel', 'fern', 'Merlin', 6, 4),
  ('Indigo', 'fish', 'Merlin', 33, 2),
  ('Kelp', 'fern', 'Merlin', 4, 4),
  ('Lark', 'bone', 'Merlin', 71, 3),
  ('Maple', 'fern', 'Merlin', 11, 4),
  ('Nettle', 'shell', 'Merlin', 2, 1),
  ('Onyx', 'bone', 'Merlin', 54, 3),
  ('Pebble', 'shell', 'Osprey', 7, 1),
  ('Quill', 'fish', 'Osprey', 19, 2),
  ('Rusty', 'shell', 'Osprey', 9, 1),
  ('Saffron', 'fish', 'Osprey', 45, 2),
  ('Thistle', 'fern', 'Osprey', 10, 4),
  ('Umber', 'shell', 'Osprey', 14, 1),
  ('Violet', 'fish', 'Heron', 25, 2),
  ('Willow', 'fern', 'Heron', 16, 4),
  ('Juniper', 'bone', 'Heron', 88, 3);
CREATE TABLE shop (item TEXT PRIMARY KEY, price INTEGER, stock INTEGER, sold INTEGER);
INSERT INTO shop VALUES
  ('poster', 8, 140, 312),
  ('mug', 11, 64, 205),
  ('map', 5, 230, 418),
  ('puzzle', 17, 38, 96),
  ('book', 24, 52, 131),
  ('magnet', 3, 410, 760);
